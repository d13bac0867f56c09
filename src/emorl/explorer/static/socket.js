// The socket: requests as JSON, replies with pictures in them. It comes back by itself when the server does.

const PATIENCE = 4000; // milliseconds without any answer before the page says that it waits

export class Server {
  constructor({ reply, open, gone, slow }) {
    Object.assign(this, { reply, open, gone, slow, waiting: 0 });
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(`ws://${location.host}/socket`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.open();
    this.socket.onmessage = (event) => {
      this.rest();
      const { head, arrays } = read(event.data);
      this.reply(head, arrays);
    };
    this.socket.onclose = (event) => {
      this.rest();
      this.gone(event.code);
      setTimeout(() => this.connect(), 1000);
    };
  }

  get isOpen() { return this.socket.readyState === WebSocket.OPEN; }

  ask(kind, fields = {}) { this.send(JSON.stringify({ kind, ...fields })); }

  sendPicture(bytes) { this.send(bytes); }

  send(content) {
    if (!this.isOpen) return;
    this.socket.send(content);
    this.waiting ||= setTimeout(() => this.slow(true), PATIENCE);
  }

  rest() {
    clearTimeout(this.waiting);
    this.waiting = 0;
    this.slow(false);
  }
}

function read(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  let at = 4 + length;
  for (const [name, shape] of Object.entries(head.arrays)) {
    const count = shape.reduce((product, side) => product * side, 1);
    arrays[name] = { shape, data: new Uint8Array(buffer, at, count) };
    at += count;
  }
  return { head, arrays };
}
