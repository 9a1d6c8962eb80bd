// SPDX-License-Identifier: MIT OR Apache-2.0
//! A headless Chromium of the test's own, spoken to in the DevTools protocol over two pipes: JSON,
//! each message ended by a zero byte. Every wait is bounded; a browser that hangs fails the test
//! with what it wrote to stderr.

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

/// A browser with one tab. Every test ends it with [`Browser::close`], which looks at what it
/// complained of and asked for; one that does not fails.
pub struct Browser {
    folder: TempDir,
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Everything that was reported and no call answered: console, network, log.
    events: Vec<Value>,
    /// The address of each page, as it was opened.
    opened: Vec<String>,
    closed: bool,
}

impl Browser {
    /// Starts it with a tab of `width` × 900 px.
    pub fn start(width: u32) -> Browser {
        let folder = TempDir::with_prefix("tardy-page-").expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let made = Command::new("mkfifo").arg(path("to")).arg(path("from")).status().expect("mkfifo starts");
        assert!(made.success(), "mkfifo: {made}");
        let stderr = File::create(path("stderr")).expect("a file for the browser's stderr");
        // The shell gives the pipes the numbers 3 and 4, which the browser speaks by, and becomes
        // the browser.
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
        let mut browser = Browser {
            folder,
            child,
            to,
            from,
            session: None,
            last_id: 0,
            events: Vec::new(),
            opened: Vec::new(),
            closed: false,
        };
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
        let url = format!("file://{}", path.display());
        self.opened.push(url.clone());
        self.call("Page.navigate", json!({ "url": url }));
        self.until("document.readyState === 'complete' && document.documentElement.classList.contains('live')");
    }

    /// A script that runs in each page before its own.
    pub fn before_each_page(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
    }

    /// The end of every test: the console is clean, nothing was thrown, and nobody was asked for
    /// anything but the pages opened.
    pub fn close(mut self) {
        self.look_back();
        self.closed = true;
    }

    /// What [`Browser::close`] asserts, of all up to now; forgets it.
    pub fn look_back(&mut self) {
        // What is on its way comes before the answer to a page that has drawn twice.
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))");
        let events = std::mem::take(&mut self.events);
        let complaints: Vec<&Value> = events.iter().filter(|event| is_complaint(event)).collect();
        assert!(complaints.is_empty(), "the browser complains: {complaints:?}");
        let sent = events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let sent: Vec<&str> = sent.filter_map(|event| event["params"]["request"]["url"].as_str()).collect();
        assert_eq!(sent, self.opened, "requests, and the pages opened");
        self.opened.clear();
    }

    /// Complaints since the last look back, as text; forgets them. For a test that provokes them.
    pub fn provoked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events).iter().filter(|event| is_complaint(event)).map(Value::to_string).collect()
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
        self.press_with(key, 0);
    }

    /// The same with Shift held.
    pub fn press_shift(&mut self, key: &str) {
        self.press_with(key, 8);
    }

    fn press_with(&mut self, key: &str, modifiers: u32) {
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "Escape" => 27,
                "End" => 35,
                "Home" => 36,
                "ArrowLeft" => 37,
                "ArrowUp" => 38,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                _ => key.bytes().next().map_or(0, i64::from),
            };
            let mut what = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
            if kind == "keyDown" && key.len() == 1 {
                what["text"] = json!(key);
            }
            self.call("Input.dispatchKeyEvent", what);
        }
    }

    /// `mouseMoved`, `mousePressed`, `mouseReleased` or `mouseWheel` (upwards) at a place in the
    /// window.
    pub fn mouse(&mut self, kind: &str, place: (f64, f64)) {
        self.click(kind, place, 1);
    }

    /// The same, a press and release of which are the so-manyeth in a row.
    pub fn click(&mut self, kind: &str, (x, y): (f64, f64), clicks: u32) {
        let mut what = json!({ "type": kind, "x": x, "y": y, "button": "none" });
        match kind {
            "mousePressed" | "mouseReleased" => {
                what["button"] = json!("left");
                what["clickCount"] = json!(clicks);
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
        assert!(self.closed || std::thread::panicking(), "a test must end with Browser::close");
    }
}

/// Warnings and errors, whatever the page writes itself, what was thrown, a page that crashed.
fn is_complaint(event: &Value) -> bool {
    match event["method"].as_str() {
        Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Inspector.targetCrashed") => true,
        Some("Log.entryAdded") => ["error", "warning"].iter().any(|l| event["params"]["entry"]["level"] == **l),
        _ => false,
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
