// The colours that the reader chose for the course: Material keeps its palette under the site's path. These pages lie
// two folders below it. Without a choice, or without storage, the style sheet follows the system.
try {
  const site = new URL("../../", location).pathname;
  const { color } = JSON.parse(localStorage.getItem(`${site}.__palette`)) ?? {};
  if (color && color.media !== "(prefers-color-scheme)") document.documentElement.dataset.scheme = color.scheme;
} catch {
  // the storage is closed, or holds something else
}
