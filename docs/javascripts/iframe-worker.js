// Browsers let no page that was opened from a disk start a worker. The site's search is one; there it runs in a frame.
// zensical would load such a script from another host, unless one with "iframe-worker" in its name is configured.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = inside.document.createElement("script");
      this.isReady = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
      });
      this.isReady.catch((error) => this.onerror?.(error));
      script.src = url;
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.isReady.then(() => this.frame.contentWindow?.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
