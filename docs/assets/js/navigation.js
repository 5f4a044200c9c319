// Under instant navigation no page is loaded, so nothing tells who does not see the screen that another one is there:
// the focus goes to its title, which is read out, as the reading starts from the top after a load.

let loaded = false;

document$.subscribe(() => {
  const title = document.querySelector(".md-content h1");
  if (loaded && title && !location.hash) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }
  loaded = true;
});
