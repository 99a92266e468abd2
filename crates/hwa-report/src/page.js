"use strict";
(() => {
  let shown = document.querySelector("main").innerHTML;
  const look = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main").innerHTML;
      if (fresh !== shown) {
        const open = [...document.querySelectorAll("details")].map((d) => d.open);
        document.querySelector("main").innerHTML = fresh;
        document.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || false; });
        document.title = page.title;
        shown = fresh;
        document.dispatchEvent(new Event("fresh"));
      }
      document.body.dataset.state = "up";
    } catch {
      document.body.dataset.state = "gone";
    }
    setTimeout(look, 2000);
  };
  setTimeout(look, 2000);
})();
