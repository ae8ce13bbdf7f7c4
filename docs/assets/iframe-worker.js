// A browser starts no worker for a page that was opened as a file. A hidden frame runs the worker's script instead.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = data => setTimeout(() => this.onmessage?.({data}));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      this.loaded = new Promise(done => { script.onload = done; });
      script.onerror = event => this.onerror?.(event);
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow?.onmessage({data}));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
