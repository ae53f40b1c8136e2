import {element, setShown, setText} from './dom.js';

/** A list of names and values at the top of a detail page. Values are texts, or elements such as links. */
export class Facts {
  #values = new Map();
  element = element('dl', {class: 'facts'});

  /** Shows these `[name, value]` pairs in this order; those with an empty value are left out. */
  show(pairs) {
    for (const [name, value] of pairs) {
      let row = this.#values.get(name);
      if (!row) {
        row = {value: element('dd')};
        row.element = element('div', {class: 'fact', 'data-fact': name}, element('dt', {}, name), row.value);
        this.#values.set(name, row);
        this.element.append(row.element);
      }
      const isText = typeof value === 'string';
      if (setShown(row.element, value !== null && value !== undefined && value !== '')) {
        if (isText) {
          setText(row.value, value);
        } else if (row.value.firstChild?.href !== value.href || row.value.textContent !== value.textContent) {
          row.value.replaceChildren(value);
        }
      }
    }
  }
}
