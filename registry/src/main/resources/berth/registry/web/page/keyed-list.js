/** Children of an element, one per key. Elements stay the same ones while their thing is there, so focus stays too. */
export class KeyedList {
  #container;
  #create;
  #items = new Map();

  /** `create(key)` makes an object with an `element`, and `remove()` if it has to let go of anything. */
  constructor(container, create) {
    this.#container = container;
    this.#create = create;
  }

  get(key) {
    return this.#items.get(key);
  }

  values() {
    return this.#items.values();
  }

  /** Shows exactly these keys in this order. */
  show(keys) {
    const wanted = new Set(keys);
    for (const [key, item] of this.#items) {
      if (!wanted.has(key)) {
        this.#items.delete(key);
        item.remove?.();
        item.element.remove();
      }
    }
    let place = this.#container.firstElementChild;
    for (const key of wanted) {
      let item = this.#items.get(key);
      if (!item) {
        item = this.#create(key);
        this.#items.set(key, item);
      }
      if (item.element === place) {
        place = place.nextElementSibling;
      } else {
        this.#container.insertBefore(item.element, place);
      }
    }
  }
}
