// Reads a chosen file into the text area of the check form; nothing is sent until the form is.
"use strict";
(function () {
  const picker = document.getElementById("picker"), file = document.getElementById("file");
  if (!picker || !file) { return; }
  picker.hidden = false;
  file.addEventListener("change", async () => {
    if (file.files.length) { document.getElementById("explanation").value = await file.files[0].text(); }
  });
})();
