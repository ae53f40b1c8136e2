/**
 * Work for the screen, done in animation frames and never more per frame than fits into one. Five hundred servers send a
 * sample in the same moment; what does not fit waits for the next frame instead of making the page stutter.
 */

const BUDGET_MILLIS = 6;

/** A set keeps the order and takes each only once: a hidden tab, which gets no frames, cannot pile up work. */
const waiting = new Set();
let requested = false;

/** Calls `painter.paint()` in one of the next frames, once however often it was asked for. */
export function paintSoon(painter) {
  waiting.add(painter);
  if (!requested) {
    requested = true;
    requestAnimationFrame(paintWaiting);
  }
}

/** Takes back what paintSoon asked for. */
export function paintNoMore(painter) {
  waiting.delete(painter);
}

function paintWaiting() {
  requested = false;
  const begin = performance.now();
  for (const painter of waiting) {
    waiting.delete(painter);
    try {
      painter.paint();
    } catch (failure) {
      // One card that cannot be drawn must not take the others with it.
      console.error(failure);
    }
    if (performance.now() - begin > BUDGET_MILLIS) {
      break;
    }
  }
  if (waiting.size > 0 && !requested) {
    requested = true;
    requestAnimationFrame(paintWaiting);
  }
}
