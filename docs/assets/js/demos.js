// Wakes each <course-demo name="NAME"> on the page: fetches demos/NAME.js and what demos share, only where one is shown.
// The figure in the page is complete without it; where a module does not come, the page keeps that figure.

{
  const folder = new URL("../demos/", document.currentScript.src);

  class CourseDemo extends HTMLElement {
    async connectedCallback() {
      const name = this.getAttribute("name");
      const round = (this.round = {}); // another connection makes this one's answer stale
      try {
        const [{ run }, demo] = await Promise.all([import(`${folder}lib/element.js`), import(`${folder}${name}.js`)]);
        if (this.isConnected && this.round === round) this.stop = run(this, name, demo);
      } catch (error) {
        this.dataset.state = "failed"; // styles take the controls away and show the static answer
        console.error(`演示 ${name} 没有启动：`, error);
      }
    }

    disconnectedCallback() {
      this.round = undefined;
      this.stop?.();
      this.stop = undefined;
    }
  }

  customElements.define("course-demo", CourseDemo);
}
