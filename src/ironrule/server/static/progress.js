// Live progress of a job: server-sent events, or asking once a second where those do not come through.
"use strict";
(function () {
  const box = document.getElementById("progress");
  if (!box) { return; }
  const name = box.dataset.job;
  const put = (id, text) => { const there = document.getElementById(id); if (there) { there.textContent = text; } };
  const bounds = (number) => number + (number === 1 ? " bound" : " bounds");
  const bar = document.getElementById("rows_bar");
  let told = "";

  function show(job) {
    const far = job.progress;
    if (bar) {  // a batch
      bar.value = far.rows_done;
      put("rows_done", far.rows_done.toLocaleString("en"));
      return;
    }
    put("seconds", far.seconds.toFixed(1));
    put("best_weight", far.best_weight === null ? "none yet" : bounds(far.best_weight));
    put("lower_bound", far.lower_bound ? bounds(far.lower_bound) : "nothing yet");
    put("evaluations", far.evaluations.toLocaleString("en"));
    put("candidates", far.candidates.toLocaleString("en"));
    const said = job.state === "waiting" ? "Waiting." : far.phase === "preparing" ? "Preparing." : far.best_weight === null ? "Running." : "Running; a candidate was found.";
    if (said !== told) { put("said", said); told = said; }  // a screen reader hears changes alone
  }

  function end() { window.location.reload(); }

  async function ask() {
    const answer = await fetch("/api/jobs/" + name, { headers: { Accept: "application/json" } });
    if (!answer.ok) { end(); return; }
    const job = await answer.json();
    show(job);
    if (job.state === "waiting" || job.state === "running") { window.setTimeout(ask, 1000); } else { end(); }
  }

  const events = new EventSource("/api/jobs/" + name + "/events");
  events.addEventListener("progress", (event) => show(JSON.parse(event.data)));
  events.addEventListener("end", () => { events.close(); end(); });
  events.onerror = () => { events.close(); ask(); };
})();
