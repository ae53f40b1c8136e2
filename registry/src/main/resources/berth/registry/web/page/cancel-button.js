import {element, setShown, setText} from './dom.js';

/** A button that cancels a run or a cluster after it was asked whether to. Only there if the registry lets pages cancel. */
export class CancelButton {
  #path = '';
  #what = '';
  #question = element('p');
  #failure = element('p', {class: 'dialog-failure', role: 'alert', hidden: true});
  #yes;
  #dialog;

  /** `noun` is what is cancelled, such as "run". */
  constructor(noun) {
    const no = element('button', {type: 'button'}, `Keep the ${noun}`);
    this.#yes = element('button', {type: 'button', class: 'danger', 'data-confirm': true}, `Cancel the ${noun}`);
    this.#dialog = element('dialog', {class: 'dialog', 'data-dialog': 'cancel', 'aria-label': `Cancel the ${noun}`},
      this.#question, this.#failure, element('div', {class: 'dialog-buttons'}, no, this.#yes));
    this.button = element('button', {type: 'button', class: 'danger', 'data-cancel': true, hidden: true},
      `Cancel ${noun}…`);
    this.element = element('div', {class: 'cancel'}, this.button, this.#dialog);
    this.button.addEventListener('click', () => this.#ask());
    no.addEventListener('click', () => this.#dialog.close());
    this.#yes.addEventListener('click', () => this.#cancel());
  }

  /** `path` is where to post to; `what` names it in the question. */
  show(isPossible, path, what) {
    this.#path = path;
    this.#what = what;
    if (!setShown(this.button, isPossible) && this.#dialog.open) {
      this.#dialog.close();
    }
  }

  #ask() {
    setText(this.#question, `Cancel ${this.#what}? What it did not save is lost.`);
    setShown(this.#failure, false);
    this.#yes.disabled = false;
    this.#dialog.showModal();
  }

  async #cancel() {
    this.#yes.disabled = true;
    try {
      // Other sites cannot send this header, so nobody can be made to cancel something by a link.
      const response = await fetch(this.#path, {method: 'POST', headers: {'X-Berth-Page': '1'}});
      if (response.ok) {
        this.#dialog.close();
        return;
      }
      const answer = await response.json().catch(() => ({}));
      this.#fail(answer.error ?? `the registry answered ${response.status}`);
    } catch {
      this.#fail('the registry does not answer');
    }
  }

  #fail(sentence) {
    this.#yes.disabled = false;
    setText(this.#failure, `Not cancelled: ${sentence}`);
    setShown(this.#failure, true);
  }
}
