/** How much of each GPU is shown. Few get much room; of thousands each is a tile. */

export const DENSITIES = ['full', 'rows', 'tiles'];

const MOST_GPUS_IN_FULL = 48;
const MOST_GPUS_IN_ROWS = 200;

export function densityFor(gpus, servers) {
  if (gpus <= MOST_GPUS_IN_FULL && servers <= MOST_GPUS_IN_FULL) {
    return 'full';
  }
  return gpus <= MOST_GPUS_IN_ROWS && servers <= MOST_GPUS_IN_ROWS ? 'rows' : 'tiles';
}
