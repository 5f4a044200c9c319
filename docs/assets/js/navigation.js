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

// On narrow windows the navigation is a drawer, which Material opens by a label that no keyboard reaches. Enter on a
// label is Material's own. Both elements stay when the page changes.
{
  const drawer = document.querySelector("#__drawer");
  const button = document.querySelector(".md-header [for=__drawer]");
  const tell = () => (button.ariaExpanded = drawer.checked);
  Object.assign(button, { tabIndex: 0, role: "button", ariaLabel: "菜单" });
  drawer.addEventListener("change", tell);
  tell();
  button.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    drawer.click();
  });
  document.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !drawer.checked) return;
    drawer.click();
    button.focus();
  });
}
