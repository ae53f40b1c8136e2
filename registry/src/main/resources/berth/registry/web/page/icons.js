/** Shapes of the sprite in index.html. Each state has a shape of its own, so that no state is told by colour alone. */

const SVG = 'http://www.w3.org/2000/svg';

/** Makes an icon; `name` is the id of a symbol without its `icon-`. The text beside says the same. */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  svg.append(document.createElementNS(SVG, 'use'));
  setIcon(svg, name);
  return svg;
}

export function setIcon(svg, name) {
  const href = `#icon-${name}`;
  const use = svg.firstChild;
  if (use.getAttribute('href') !== href) {
    use.setAttribute('href', href);
  }
}
