/**
 * Builds and changes elements. There is no way to pass HTML in: every string becomes text, because names, purposes and
 * commands hold whatever somebody typed.
 */

/**
 * Makes an element: `element('a', {class: 'name', href: '#/'}, 'text', child, ...)`. Attributes that are null or false are
 * left out, `true` stands for an attribute without a value.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(made, name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Writes only if the text is another one: an unchanged text then costs no layout. */
export function setText(node, text) {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Sets an attribute if it is another one; null and false remove it. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) {
      node.removeAttribute(name);
    }
    return;
  }
  const text = value === true ? '' : String(value);
  if (node.getAttribute(name) !== text) {
    node.setAttribute(name, text);
  }
}

/** Shows or hides with the `hidden` attribute, and says whether the element is shown. */
export function setShown(node, shown) {
  if (node.hidden === shown) {
    node.hidden = !shown;
  }
  return shown;
}

/** Sets a custom property, the one kind of style that scripts set here. */
export function setProperty(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) {
    node.style.setProperty(name, value);
  }
}
