// A page on paper: light colours, and every lane at its least height. The canvas is drawn again for the sheet before
// printing and for the window after it. `@media print` of the style sheet lays out the rest.

/** The width of the lanes on a sheet of A4 in landscape, and the most height that a canvas is given. */
const PRINT_WIDTH = 1040, MOST_PRINT_HEIGHT = 12000;
let beforePrint = null;

function sheetOn() {
  if (beforePrint) return;
  const { t0, t1, y, hover } = view, stage = byId("stage");
  beforePrint = { t0, t1, y, hover };
  document.documentElement.classList.add("printed");
  readTheme();
  stage.style.width = `${PRINT_WIDTH}px`;
  stage.style.flex = "none";
  layOut(0);
  stage.style.height = `${Math.min(MOST_PRINT_HEIGHT, Math.ceil(TOP + contentHeight))}px`;
  resize();
  // A window that is high enough lets lanes grow; a sheet does not.
  layOut(0);
  view.hover = -1;
  view.y = 0;
  draw();
}

function sheetOff() {
  if (!beforePrint) return;
  const stage = byId("stage");
  document.documentElement.classList.remove("printed");
  readTheme();
  stage.style.width = stage.style.height = stage.style.flex = "";
  resize();
  Object.assign(view, beforePrint);
  beforePrint = null;
  draw();
}

addEventListener("beforeprint", sheetOn);
addEventListener("afterprint", sheetOff);
