// Follows a live episode: one stream per page, closed while the page is hidden, resumed after the last step.
"use strict";
(() => {
  const page = document.querySelector("[data-live]");
  if (!page) return;
  const by = (id) => document.getElementById(id);
  const state = by("connection"), list = by("list"), end = by("end"), jump = by("jump"), announcer = by("announcer");
  let last = Number(page.dataset.after), stopped = false, abort = null, pause = 500, unseen = 0, unsaid = 0;

  const say = (word, look) => { if (state) { state.textContent = word; state.className = "live " + look; } };
  const html = (text) => { const t = document.createElement("template"); t.innerHTML = text; return t.content; };
  const inView = (element) => element.getBoundingClientRect().top < window.innerHeight + 40;
  const stop = (word) => { stopped = true; say(word, "off"); if (abort) abort.abort(); };

  // Seconds of running calls, counted from what the server said when the card came.
  function tick() {
    const now = performance.now() / 1000;
    for (const time of document.querySelectorAll("#running [data-seconds]")) {
      time.begun ??= now - Number(time.dataset.seconds);
      const seconds = now - time.begun;
      time.textContent = seconds < 60 ? `${seconds.toFixed(0)} s` : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    }
  }
  tick();
  setInterval(tick, 1000);

  const handlers = {
    step(data) {
      if (data.number <= last) return; // a step that came before the connection was lost
      const follows = inView(end);
      last = data.number;
      list.append(html(data.step));
      by("outline").append(html(data.outline));
      by("strip").append(html(data.cell));
      by("empty")?.remove();
      unsaid += 1;
      if (follows) { end.scrollIntoView({ block: "end" }); return; }
      unseen += 1;
      jump.firstElementChild.textContent = `${unseen} new step${unseen === 1 ? "" : "s"} ↓`;
      jump.hidden = false;
    },
    summary(data) {
      by("facts").innerHTML = data.facts;
      by("word").innerHTML = data.mark;
      by("numbers").innerHTML = data.figures;
      end.textContent = data.end;
    },
    running(data) {
      const follows = inView(end);
      by("running").innerHTML = data.html;
      tick();
      if (follows && data.html) end.scrollIntoView({ block: "end" });
    },
    end() { by("running").replaceChildren(); stop("Ended"); },
    failure(data) { say(data.message, "wait"); },
  };

  async function read() {
    abort = new AbortController();
    const response = await fetch(`${page.dataset.live}?after=${last}`, { signal: abort.signal });
    if (response.status === 401) return stop("Signed out");
    if (response.status === 404) return stop("Gone");
    if (!response.ok) throw new Error(response.status);
    say("Live", "");
    pause = 500;
    let rest = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const text of events) {
        const name = /^event: (.*)$/m.exec(text), data = /^data: (.*)$/m.exec(text);
        if (name && data && Object.hasOwn(handlers, name[1])) handlers[name[1]](JSON.parse(data[1]));
      }
    }
  }

  async function follow() {
    while (!stopped && !document.hidden) {
      try { await read(); } catch (error) { if (error.name === "AbortError") return; }
      if (stopped) return;
      say("Reconnecting…", "wait");
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, 15000);
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (stopped) return;
    if (document.hidden) { abort?.abort(); say("Paused", "off"); } else follow();
  });
  window.addEventListener("pagehide", () => abort?.abort());
  window.addEventListener("scroll", () => { if (inView(end)) { unseen = 0; jump.hidden = true; } }, { passive: true });
  setInterval(() => {
    if (unsaid) announcer.textContent = `${unsaid} new step${unsaid === 1 ? "" : "s"}, ${last} in all`;
    unsaid = 0;
  }, 5000);
  follow();
})();
