//! Tests the web page in a headless browser. Skipped if no Chromium is installed.

use crate::client::Fixture;
use crate::web::with_page;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Possible names of the browser's program.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Number of polls, 50 ms apart, after which a condition counts as failed.
const LOOKS: u32 = 600;

/// A browser controlled through its standard input and output.
struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    asked: u64,
    /// Errors reported by the page's scripts.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Option<Browser> {
        let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
        let name = BROWSERS.iter().find(is_there)?;
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and answers on descriptor 4.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", script, name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--window-size=1400,900",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut browser = Browser {
            child,
            input,
            output: BufReader::new(output),
            session: None,
            asked: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let targets = browser.ask("Target.getTargets", &json!({}));
        let all = targets["targetInfos"].as_array().unwrap();
        let page = all.iter().find(|target| target["type"] == "page").unwrap();
        let attached = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", &attached);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, &json!({}));
        }
        Some(browser)
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(message.to_string().as_bytes()).unwrap();
        self.input.write_all(&[0]).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            match answer["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Log.entryAdded") => {
                    self.complaints.push(answer["params"].to_string());
                }
                _ if answer["id"] == self.asked => {
                    assert!(answer["error"].is_null(), "{method}: {answer}");
                    return answer["result"].clone();
                }
                _ => {}
            }
        }
    }

    /// Evaluates an expression in the page.
    fn eval(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", &parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    fn wait(&mut self, expression: &str) {
        for _ in 0..LOOKS {
            if self.eval(expression) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let page = self.eval("document.body.innerText");
        panic!(
            "{expression} does not become true; complaints: {:?}; the page: {page}",
            self.complaints
        );
    }

    fn open(&mut self, address: SocketAddr, view: &str) {
        let url = format!("http://{address}/#/{view}");
        self.ask("Page.navigate", &json!({ "url": url }));
    }

    fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key });
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the labels of the tiles that the page's script draws.
fn tiles() -> Vec<&'static str> {
    const SCRIPT: &str = include_str!("../../src/web/assets/app.js");
    let (_, drawn) = SCRIPT.split_once("function drawTiles()").unwrap();
    let (drawn, _) = drawn.split_once("\n  ]);").unwrap();
    let lines = drawn.lines().filter_map(|line| line.strip_prefix("    [\""));
    let labels: Vec<&str> = lines.map(|line| line.split_once('"').unwrap().0).collect();
    assert!(!labels.is_empty(), "the script names them as it did");
    labels
}

#[test]
fn a_browser_shows_all_views_and_its_scripts_do_not_fail() {
    let Some(mut browser) = Browser::start() else {
        alluvium_device::skipped!("chromium", "on Debian: apt-get install chromium");
        return;
    };
    let fixture = Fixture::with(with_page());
    let address = fixture.server.web_addr().unwrap();
    let rivers = fixture.db.keyspace("rivers").unwrap();
    for number in 0..120u32 {
        rivers
            .put(format!("r/{number:03}"), format!("value {number}"))
            .unwrap();
    }
    rivers
        .put("<b>bold</b>", "<script>document.title = 'taken'</script>")
        .unwrap();
    rivers.put([0xff, 0], [0, 1, 0xfe]).unwrap();
    fixture.db.checkpoint().unwrap();
    let mut client = fixture.client();
    client.ask("SET Elbe 1094");

    browser.open(address, "overview");
    browser.wait("document.querySelector('#state')?.textContent.trim() === 'live'");
    // Every tile that the script defines must exist and show a value.
    let shown = "[...document.querySelectorAll('#tiles .tile')].filter((tile) => tile.querySelector('strong').textContent)\
                 .map((tile) => tile.querySelector('span').textContent)";
    browser.wait(&format!(
        "JSON.stringify({shown}) === {:?}",
        json!(tiles()).to_string()
    ));
    browser.wait("document.querySelectorAll('#charts svg path').length > 20");
    browser.wait("document.querySelector('#clients').innerText.includes('set')");
    browser.wait("document.querySelector('#purposes').innerText.includes('incorporate')");

    browser.open(address, "tree");
    browser.wait("document.querySelectorAll('#tree-picture [data-cell]').length > 0");
    browser.wait("document.querySelector('#tree-detail').innerText.includes('records in')");
    browser.eval("document.querySelector('#tree-picture').focus()");
    browser.press("ArrowRight");

    browser.open(address, "keys/rivers");
    browser.wait("document.querySelectorAll('#keys-table [data-row]').length === 50");
    // Stored data must be displayed as text, never interpreted as HTML.
    browser.wait("document.querySelector('[data-row=\"0\"] th').textContent === '<b>bold</b>'");
    browser.eval("document.querySelector('[data-row=\"0\"]').click()");
    browser.wait("document.querySelector('#value pre')?.textContent.startsWith('<script>')");
    assert_eq!(browser.eval("document.title"), "Keys · Alluvium");
    browser.eval("document.querySelector('[data-row=\"0\"]').focus()");
    browser.press("ArrowDown");
    browser.wait("document.querySelector('#value pre')?.textContent === 'value 0'");
    browser.eval("document.querySelector('#page-next').click()");
    browser.wait("document.querySelector('#page-number').textContent === 'page 2'");
    browser.eval("document.querySelector('#page-next').click()");
    browser.wait("document.querySelectorAll('#keys-table [data-row]').length === 22");
    browser.eval("document.querySelector('[data-row=\"21\"]').click()");
    browser.wait("document.querySelector('#value pre')?.textContent.startsWith('00000000  00 01 fe')");
    browser.wait("document.querySelector('#value h2').textContent === '\\\\xff\\\\x00'");
    browser.eval("document.querySelector('#prefix').value = 'r/11'");
    browser.eval("document.querySelector('#search').requestSubmit()");
    browser.wait("document.querySelectorAll('#keys-table [data-row]').length === 10");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}
