//! A headless Chromium, controlled over a pipe with the DevTools protocol.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The variable with the path of the browser.
pub(crate) const VARIABLE: &str = "POSTROOM_TEST_CHROMIUM";
/// Far longer than anything here takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

const OPTIONS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    // The test issues its own certificates.
    "--ignore-certificate-errors",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    told: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts one, 1200 pixels wide.
    pub(crate) fn start() -> Self {
        let program = std::env::var_os(VARIABLE).unwrap();
        let profile = tempfile::tempdir().unwrap();
        // It reads commands from file descriptor 3 and answers on 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null"]).arg(program).args(OPTIONS);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.env("HOME", profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, told) = mpsc::channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let events = Vec::new();
        let mut browser = Self { child, commands, told, session: None, last_id: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.width(1200, 900);
        browser
    }

    /// Sends a command, and waits for its answer.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {command}"));
            if message["id"] != self.last_id {
                self.events.push(message);
                continue;
            }
            assert!(message["error"].is_null(), "{command}: {}", message["error"]);
            return message["result"].clone();
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        self.until("document.readyState === 'complete'");
    }

    /// Evaluates an expression in the page; awaits a promise.
    pub(crate) fn js(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let said = self.call("Runtime.evaluate", &params);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {}", said["exceptionDetails"]);
        said["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn until(&mut self, expression: &str) {
        let waiting = format!(
            "new Promise((done) => {{
                 const end = performance.now() + 20000;
                 const look = () => {{
                     let is = false;
                     try {{ is = {expression}; }} catch {{}}
                     if (is || performance.now() > end) done(Boolean(is)); else setTimeout(look, 20);
                 }};
                 look();
             }})"
        );
        if self.js(&waiting) != json!(true) {
            let text = self.js("document.body.innerText");
            panic!("not in time: {expression}\nthe page says: {}", text.as_str().unwrap_or_default());
        }
    }

    /// Waits for a view of the page.
    pub(crate) fn until_shown(&mut self, name: &str) {
        self.until(&format!("view.ariaBusy === 'false' && view.dataset.shown === '{name}'"));
    }

    /// The text of the first element.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.js(&format!("document.querySelector({})?.innerText", json!(selector)));
        text.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    pub(crate) fn count(&mut self, selector: &str) -> u64 {
        self.js(&format!("document.querySelectorAll({}).length", json!(selector))).as_u64().unwrap()
    }

    /// Clicks with the mouse in the middle of the first element, which must be on top there.
    pub(crate) fn click(&mut self, selector: &str) {
        let spot = self.js(&format!(
            "(() => {{
                 const found = document.querySelector({});
                 if (!found) return null;
                 found.scrollIntoView({{ block: 'center', behavior: 'instant' }});
                 const box = found.getClientRects()[0];
                 const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                 const top = document.elementFromPoint(x, y);
                 return {{ x, y, isOnTop: found === top || found.contains(top) }};
             }})()",
            json!(selector)
        ));
        assert_eq!(spot["isOnTop"], true, "{selector} cannot be clicked: {spot}");
        for kind in ["mousePressed", "mouseReleased"] {
            let at = json!({ "type": kind, "x": spot["x"], "y": spot["y"], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &at);
        }
    }

    /// Types into the focused element.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Presses and releases a key.
    pub(crate) fn key(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            other => panic!("no such key here: {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    pub(crate) fn width(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    pub(crate) fn prefer(&mut self, scheme: &str) {
        let wish = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &wish);
    }

    /// Saves a screenshot of the whole page.
    pub(crate) fn picture(&mut self, name: &str) {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true }));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// Every URL that was requested.
    pub(crate) fn requests(&mut self) -> BTreeSet<String> {
        self.call("Runtime.evaluate", &json!({ "expression": "1" }));
        let asked = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        asked.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// The errors of the browser: exceptions and violations of the page's policy. The page itself shows error answers.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.call("Runtime.evaluate", &json!({ "expression": "1" }));
        let of = |event: &Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(event["params"]["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if event["params"]["entry"]["source"] != "network" => {
                Some(event["params"]["entry"]["text"].to_string())
            }
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
}

/// `target/tests/screenshots`.
fn pictures() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_postroom"));
    program.ancestors().nth(2).unwrap().join("tests").join("screenshots")
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
