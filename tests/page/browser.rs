// SPDX-License-Identifier: MIT OR Apache-2.0
//! A headless Chromium of the test's own, spoken to in the DevTools protocol over two pipes: JSON, each message ended by a zero
//! byte. Every wait is bounded; a browser that hangs fails the test with what it wrote to stderr.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than a page takes on a busy machine, shorter than anyone waits.
const PATIENCE: Duration = Duration::from_secs(90);
const PROGRAM: &str = "chromium";

/// Whether there is a browser; if not, the test is skipped and counted.
pub fn can_browse(test: &str) -> bool {
    let there = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        tardy_tests::skip(test, "no chromium on this machine (Debian's package chromium)");
    }
    there
}

/// A browser with one tab.
pub struct Browser {
    folder: TempDir,
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Everything that was reported and no call answered: console, network, log.
    pub events: Vec<Value>,
}

impl Browser {
    /// Starts it with a tab of `width` × 900 px.
    pub fn start(width: u32) -> Browser {
        let folder = TempDir::with_prefix("tardy-page-").expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let made = Command::new("mkfifo").arg(path("to")).arg(path("from")).status().expect("mkfifo starts");
        assert!(made.success(), "mkfifo: {made}");
        let stderr = File::create(path("stderr")).expect("a file for the browser's stderr");
        // The shell gives the pipes the numbers 3 and 4, which the browser speaks by, and becomes the browser.
        let script = "exec \"$0\" --remote-debugging-pipe --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
                      --disable-background-networking --hide-scrollbars --user-data-dir=\"$3\" about:blank 3<\"$1\" 4>\"$2\"";
        let child = Command::new("sh")
            .args(["-c", script, PROGRAM])
            .args([path("to"), path("from"), path("profile")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("a shell starts");
        // Opened for both, for a pipe that nobody reads yet would hold us up.
        let open = |name: &str| File::options().read(true).write(true).open(path(name)).expect("a pipe opens");
        let (to, from) = (open("to"), listen(open("from")));
        let mut browser = Browser { folder, child, to, from, session: None, last_id: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width);
        browser
    }

    /// The window's width in px.
    pub fn resize(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the reader's system prefers: `light`, `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a file and waits until its script has run.
    pub fn open(&mut self, page: &Path) {
        let path = page.canonicalize().expect("the page is there");
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        self.until("document.readyState === 'complete' && document.documentElement.classList.contains('live')");
    }

    /// The value of a JavaScript expression; a promise is waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let what = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", what);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.eval(expression) != Value::Bool(true) {
            if Instant::now() > end {
                self.give_up(&format!("not true after {PATIENCE:?}: {expression}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A key, pressed and released.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "Escape" => 27,
                "ArrowLeft" => 37,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                _ => key.bytes().next().map_or(0, i64::from),
            };
            let mut what = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && key.len() == 1 {
                what["text"] = json!(key);
            }
            self.call("Input.dispatchKeyEvent", what);
        }
    }

    /// `mouseMoved`, `mousePressed`, `mouseReleased` or `mouseWheel` (upwards) at a place in the window.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let mut what = json!({ "type": kind, "x": x, "y": y, "button": "none" });
        match kind {
            "mousePressed" | "mouseReleased" => {
                what["button"] = json!("left");
                what["clickCount"] = json!(1);
            }
            "mouseWheel" => {
                what["deltaX"] = json!(0);
                what["deltaY"] = json!(-120);
            }
            _ => {}
        }
        self.call("Input.dispatchMouseEvent", what);
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser's pipe takes a message");
        let end = Instant::now() + PATIENCE;
        loop {
            let mut got = self.next(end, method);
            if got["id"] == json!(id) {
                assert!(got.get("error").is_none(), "{method}: {got}");
                return got["result"].take();
            }
            self.events.push(got);
        }
    }

    fn next(&mut self, end: Instant, method: &str) -> Value {
        loop {
            match self.from.recv_timeout(Duration::from_millis(500)) {
                Ok(message) => return message,
                Err(RecvTimeoutError::Timeout) if Instant::now() < end => {
                    if let Ok(Some(status)) = self.child.try_wait() {
                        self.give_up(&format!("the browser ended during {method}: {status}"));
                    }
                }
                Err(_) => self.give_up(&format!("no answer to {method} in {PATIENCE:?}")),
            }
        }
    }

    fn give_up(&mut self, why: &str) -> ! {
        let stderr = std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
        panic!("{why}; the browser's stderr:\n{stderr}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Messages as they come, by a thread that ends with the pipe.
fn listen(pipe: File) -> Receiver<Value> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(pipe).split(0) {
            let Ok(bytes) = message else { return };
            let Ok(message) = serde_json::from_slice(&bytes) else { continue };
            if send.send(message).is_err() {
                return;
            }
        }
    });
    receive
}
