const TYPED = "input, textarea, select, [contenteditable], iframe";

/**
 * In a frame of another page, keys go to that page until somebody clicks in the frame. This page takes them when the pointer comes over it,
 * unless somebody types around it; where that cannot be known, it waits for a click.
 */
export function takeKeysInFrame(): void {
  if (window.parent === window) return;
  document.documentElement.addEventListener("pointerenter", () => {
    if (!document.hasFocus() && !typedAround()) window.focus();
  });
}

function typedAround(): boolean {
  try {
    return window.parent.document.activeElement?.closest(TYPED) !== null;
  } catch {
    return true;
  }
}
