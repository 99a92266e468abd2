"use strict";
(() => {
  const main = document.querySelector("main");
  let shown = main.innerHTML;
  // What a reader has opened and moved aside stays so.
  const put = (fresh) => {
    const all = (what) => [...main.querySelectorAll(what)];
    const open = all("details").map((d) => d.open);
    const aside = all("figure, .scroll, pre").map((box) => box.scrollLeft);
    main.innerHTML = fresh;
    all("details").forEach((d, i) => { d.open = open[i] || false; });
    all("figure, .scroll, pre").forEach((box, i) => { box.scrollLeft = aside[i] || 0; });
    document.dispatchEvent(new Event("fresh"));
  };
  const heard = () => { document.body.dataset.heard = new Date().toLocaleTimeString(); };
  const look = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main").innerHTML;
      // Nobody's selection is taken away.
      if (fresh !== shown && getSelection().isCollapsed) {
        put(fresh);
        document.title = page.title;
        shown = fresh;
      }
      document.body.dataset.state = "up";
      heard();
    } catch {
      document.body.dataset.state = "gone";
    }
    setTimeout(look, 2000);
  };
  heard();
  setTimeout(look, 2000);
})();
