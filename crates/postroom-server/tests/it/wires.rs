//! The transports between two nodes, and from a node to itself.

use postroom::services::Secret;

use crate::desk::{Desk, Running, until};
use crate::hook::{Hook, said};
use crate::node::free_port;

/// `orders` sends and `inventory` answers, each at its address.
struct Wired {
    orders: Desk,
    inventory: Desk,
    hook: Hook,
}

impl Wired {
    /// With these addresses of `orders` and `inventory`, and the listen address of the latter.
    fn new(here: &str, there: &str, listens: &str) -> Self {
        let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
        let wired = Self { orders: Desk::new(), inventory: Desk::new(), hook };
        let secret = Secret::generate();
        let keys = "keys = { a = { file = \"shop.key\" } }";
        let configure = |desk: &Desk, name, listen: &str, other, url: &str, more: &str| {
            desk.write("shop.key", &secret);
            let node = format!("[node]\nname = \"{name}\"\n[receiver]\nlisten = [{listen}]\n");
            let other = format!("[sources.{other}]\n{keys}\n[services.{other}]\nurl = \"{url}\"\n{keys}\n");
            desk.write("postroom.toml", &format!("{node}{other}{more}"));
        };
        configure(&wired.orders, "orders", &format!("\"{here}\""), "inventory", there, "");
        let handler = format!("[handlers.\"stock.reserve\"]\nurl = \"{}\"\n", wired.hook.url());
        configure(&wired.inventory, "inventory", listens, "orders", here, &handler);
        wired
    }

    /// Both nodes, once they listen.
    fn start(&self, variables: &[(&str, &str)]) -> [Running; 2] {
        let both = [&self.orders, &self.inventory].map(|desk| desk.start_with(&["up"], variables));
        both.iter().for_each(|up| _ = up.wait_for("receives at"));
        both
    }

    /// Sends one message, and waits for its answer.
    fn talk(&self) {
        let id = self.orders.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
        assert_eq!(self.hook.next().headers["postroom-source"], "orders");
        let answer = || self.orders.json(&["show", &id, "--show-payload"])[0]["response"].clone();
        until("the answer is there", || answer() == r#"{"shelf":3}"#);
    }
}

#[test]
fn two_nodes_talk_over_grpc() {
    let (here, there) = (format!("grpc://127.0.0.1:{}", free_port()), format!("grpc://127.0.0.1:{}", free_port()));
    let wired = Wired::new(&here, &there, &format!("\"{there}\""));
    let _both = wired.start(&[]);
    wired.talk();
}

#[test]
fn a_node_listens_for_http_and_for_grpc_and_each_port_understands_both() {
    let (http, grpc, here) = (free_port(), free_port(), format!("http://127.0.0.1:{}", free_port()));
    let listens = format!("\"http://127.0.0.1:{http}\", \"grpc://127.0.0.1:{grpc}\"");
    for there in [format!("grpc://127.0.0.1:{http}"), format!("http://127.0.0.1:{grpc}")] {
        let wired = Wired::new(&here, &there, &listens);
        let _both = wired.start(&[]);
        wired.talk();
    }
}

#[test]
fn two_nodes_talk_over_sockets_and_pipes() {
    let folder = Desk::new();
    // The nodes create this folder, for their user only.
    let socket = |name: &str| format!("unix://{}/{name}", folder.path("sockets").display());
    let pipe = |name: &str| format!("pipe://{name}");
    let runtime = folder.path("");
    for (here, there) in [(socket("orders.sock"), socket("inventory.sock")), (pipe("orders"), pipe("inventory"))] {
        let wired = Wired::new(&here, &there, &format!("\"{there}\""));
        let _both = wired.start(&[("XDG_RUNTIME_DIR", runtime.to_str().unwrap())]);
        wired.talk();
    }
}

#[test]
fn a_node_sends_to_itself_without_a_wire() {
    let hook = Hook::new(|_, _| said("200 OK", "", r#"{"shelf":3}"#));
    let desk = Desk::new();
    let handler = format!("[handlers.\"*\"]\nurl = \"{}\"\n", hook.url());
    let service = "[services.shop]\nurl = \"in-process\"\n";
    desk.write("postroom.toml", &format!("[node]\nname = \"shop\"\n[receiver]\nlisten = []\n{service}{handler}"));
    let _up = desk.start(&["up"]);
    let id = desk.ok(&["send", "stock.reserve", "{}", "--to", "shop"]);
    let asked = hook.next();
    assert_eq!(
        (asked.headers["postroom-source"].as_str(), asked.headers["postroom-message-id"].as_str()),
        ("shop", &*id)
    );
    let answer = || desk.json(&["show", &id, "--show-payload"])[0]["response"].clone();
    until("the answer is there", || answer() == r#"{"shelf":3}"#);

    let other = Desk::new();
    other.write("postroom.toml", &format!("[node]\nname = \"other\"\n{service}"));
    let ran = other.run(&["config", "check"]);
    let why = "postroom.toml:4: `url` in [services.shop]: in-process means this node itself; only \
               [services.other] may use it";
    assert!(ran.code == Some(1) && ran.stderr.contains(why), "{ran:?}");
}
