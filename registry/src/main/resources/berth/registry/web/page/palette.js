/**
 * The colours of the style sheet for canvases, which cannot use custom properties themselves. Read once per theme: asking
 * for a computed style while drawing would force a layout each time.
 */

const METRIC_COLOURS = {util: '--util', memory: '--memory', temperature: '--temperature', power: '--power'};
const STATE_COLOURS = {free: '--free', reserved: '--reserved', locked: '--locked', used: '--used', unhealthy: '--unhealthy'};

export const palette = {metric: {}, state: {}, rule: '', old: ''};

/** Reads the colours again, after the theme changed. */
export function readPalette() {
  const probe = document.createElement('i');
  document.body.append(probe);
  const colour = (name) => {
    probe.style.setProperty('color', `var(${name})`);
    return getComputedStyle(probe).color;
  };
  for (const [metric, name] of Object.entries(METRIC_COLOURS)) {
    palette.metric[metric] = colour(name);
  }
  for (const [state, name] of Object.entries(STATE_COLOURS)) {
    palette.state[state] = colour(name);
  }
  palette.rule = colour('--rule');
  palette.old = colour('--faint');
  probe.remove();
}
