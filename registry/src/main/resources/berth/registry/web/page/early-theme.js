// Not a module, so that it runs before the first paint: a page that begins light and then turns dark hurts the eyes.
try {
  document.documentElement.dataset.theme = localStorage.getItem('berth.theme') ?? 'auto';
} catch {
  // Without storage there is nothing remembered.
}
