//! A real Chromium, driven over a pipe by its own protocol: what a reader does with mouse and keyboard,
//! and what the page looks like to them. Messages are JSON, each ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// An answer that takes longer has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one tab.
pub(crate) struct Tab {
    browser: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Events that came while something else was awaited.
    events: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Tab {
    /// Starts Chromium. The protocol's descriptors are 3 and 4, which a shell makes of its own two.
    pub(crate) fn open(chromium: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut browser = Command::new("sh")
            .args([
                "-c",
                r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#,
            ])
            .arg(chromium)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-pipe",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let commands = browser.stdin.take().expect("it is piped");
        let output = browser.stdout.take().expect("it is piped");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let message = message.expect("a pipe that can be read");
                let message = serde_json::from_slice(&message).expect("JSON");
                // Nobody listens any more once the test is over.
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut tab = Self {
            browser,
            commands,
            messages,
            session: None,
            last_id: 0,
            events: Vec::new(),
            folder,
        };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = tab.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        tab.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Log", "Runtime", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        tab.size(1_280, 900);
        tab
    }

    /// One command and its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).expect("JSON");
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .expect("a browser that listens");
        loop {
            let answer = self.next(method);
            if answer["id"] == json!(self.last_id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn next(&self, awaited: &str) -> Value {
        let next = self.messages.recv_timeout(ANSWER_TIMEOUT);
        next.unwrap_or_else(|error| panic!("{awaited}: {error}"))
    }

    /// Takes the events of one kind that have come so far.
    pub(crate) fn events(&mut self, method: &str) -> Vec<Value> {
        let is_wanted = |event: &mut Value| event["method"] == json!(method);
        self.events.extract_if(.., is_wanted).collect()
    }

    /// Opens a page, written to a file, at a place in it, and waits until it is loaded.
    pub(crate) fn show(&mut self, page: &str, fragment: &str) {
        let file = self.folder.path().join("page.html");
        std::fs::write(&file, page).expect("a page");
        // Another address first: a change of the fragment alone loads nothing.
        self.go("about:blank");
        self.go(&format!("file://{}{fragment}", file.display()));
    }

    fn go(&mut self, address: &str) {
        let loaded = "Page.loadEventFired";
        self.events(loaded);
        self.call("Page.navigate", json!({"url": address}));
        while self.events(loaded).is_empty() {
            let event = self.next(loaded);
            self.events.push(event);
        }
    }

    /// What an expression is in the page; promises are awaited.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true}),
        );
        assert!(
            result.get("exceptionDetails").is_none(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// The same as a text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        let text = value.as_str();
        text.unwrap_or_else(|| panic!("{expression}: no text but {value}"))
            .to_owned()
    }

    /// The same as a number of things.
    pub(crate) fn count(&mut self, expression: &str) -> u64 {
        let value = self.value(expression);
        let count = value.as_u64();
        count.unwrap_or_else(|| panic!("{expression}: no count but {value}"))
    }

    /// Sets the size of the window, CSS pixels.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// Follows a reader's scheme, `light` or `dark`, on `screen` or in `print`.
    pub(crate) fn media(&mut self, media: &str, scheme: &str) {
        self.call(
            "Emulation.setEmulatedMedia",
            json!({
                "media": media,
                "features": [{"name": "prefers-color-scheme", "value": scheme}],
            }),
        );
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowRight" => 39,
            "ArrowLeft" => 37,
            other => panic!("no code for {other}"),
        };
        // Without a text Enter presses nothing.
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}),
            );
        }
    }

    /// Types a text into what has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Moves the mouse over the first element of a selector, and presses it if told so.
    pub(crate) fn point(&mut self, selector: &str, press: bool) {
        let at = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const r = e.getBoundingClientRect(); return {{x: r.x + r.width / 2, y: r.y + r.height / 2}}; }})()"
        ));
        let mouse = |kind: &str| json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1});
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseMoved", "x": at["x"], "y": at["y"]}),
        );
        if press {
            self.call("Input.dispatchMouseEvent", mouse("mousePressed"));
            self.call("Input.dispatchMouseEvent", mouse("mouseReleased"));
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // It may have ended by itself; the test has its answer either way.
        drop(self.browser.kill());
        drop(self.browser.wait());
    }
}
