import {OutputPane} from './output-pane.js';
import {OutputStream} from './output-stream.js';
import {bytes, duration} from './words.js';

/** Shows the output of one run after the other, as it comes. */
export class RunOutput {
  #pane = new OutputPane(() => this.#follow(0));
  #stream = null;
  #shown = '';
  #hasOutput = false;
  #exited = false;
  #truncated = new Set();

  get element() {
    return this.#pane.element;
  }

  /** Puts something into the head of the pane, after its title. */
  addToHead(node) {
    this.#pane.addToHead(node);
  }

  /** Follows a run from near the end of its output; nothing changes if it is the one that is shown already. */
  open(server, run) {
    const shown = JSON.stringify([server, run]);
    if (this.#shown !== shown) {
      this.close();
      this.#shown = shown;
      this.#stream = new OutputStream(server, run, this);
      this.#follow(null);
    }
  }

  /** Shows no output, and says why. */
  close(why = '') {
    this.#stream?.close();
    this.#stream = null;
    this.#shown = '';
    this.#pane.clear();
    this.#pane.say(why);
  }

  #follow(from) {
    this.#hasOutput = false;
    this.#exited = false;
    this.#truncated.clear();
    this.#pane.clear();
    this.#pane.say('connecting');
    this.#stream.open(from);
  }

  // What the stream tells.

  opened() {
    this.#pane.say(this.#exited ? '' : 'live');
  }

  waiting() {
    this.#pane.say('connection lost, trying again');
  }

  resting() {
    this.#pane.say('paused while hidden');
  }

  output({stream, offset, text}) {
    if (!this.#hasOutput) {
      this.#hasOutput = true;
      this.#pane.beginsAt(offset);
    }
    this.#pane.add(stream, text);
  }

  truncated({stream, kept}) {
    // Each connection that begins after the cut is told of it anew.
    if (this.#truncated.has(stream)) {
      return;
    }
    this.#truncated.add(stream);
    const name = stream === 'err' ? 'standard error' : 'standard output';
    this.#pane.add('err', `\n[berth: ${name} was cut off, ${bytes(kept)} are kept]\n`);
  }

  exited({exitCode, reason, why, seconds}) {
    this.#exited = true;
    const how = [exitCode === null ? '' : `exit ${exitCode}`, reason === 'finished' ? '' : reason.replaceAll('_', ' '), why]
      .filter(Boolean).join(', ');
    this.#pane.say(`ended: ${how}${seconds === null || seconds === undefined ? '' : `, after ${duration(seconds * 1000)}`}`);
  }

  failed({error, again}) {
    this.#pane.say(again ? `${error}; trying again` : error);
  }
}
