// The socket: requests as JSON, replies with pictures in them. It comes back by itself when the server does.

export class Server {
  constructor({ reply, open, gone }) {
    Object.assign(this, { reply, open, gone, waiting: 0 });
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(`ws://${location.host}/socket`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => { this.waiting = 0; this.open(); };
    this.socket.onmessage = (event) => {
      const { head, arrays } = read(event.data);
      this.reply(head, arrays);
    };
    this.socket.onclose = (event) => {
      this.gone(event.code);
      setTimeout(() => this.connect(), 1000);
    };
  }

  get isOpen() { return this.socket.readyState === WebSocket.OPEN; }

  ask(kind, fields = {}) {
    if (this.isOpen) this.socket.send(JSON.stringify({ kind, ...fields }));
  }

  sendPicture(bytes) {
    if (this.isOpen) this.socket.send(bytes);
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
