//! Services and handlers that have certificates by authorities of their own.

use postroom::Secret;

use crate::authority::Authority;
use crate::desk::{Desk, Running, until};
use crate::renew::receiving;

const KEYS: &str = "keys = { a = { file = \"shop.key\" } }\n";

/// `inventory`, which listens by TLS, and `orders`, which sends there. Nobody but the authority vouches for them.
struct Pair {
    authority: Authority,
    inventory: Desk,
    orders: Desk,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { authority: Authority::new(), inventory: Desk::new(), orders: Desk::new() };
        let secret = Secret::generate();
        pair.inventory.write("shop.key", &secret);
        pair.orders.write("shop.key", &secret);
        pair.authority.issue(&pair.inventory, "server");
        pair.orders.write("authority.pem", &pair.authority.pem());
        pair.orders.write("other.pem", &Authority::new().pem());
        pair
    }

    /// Starts `inventory`, and says at which port.
    fn listen(&self, scheme: &str, more: &str) -> (Running, u16) {
        let tls = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\n";
        self.inventory.write(
            "postroom.toml",
            &format!(
                "[node]\nname = \"inventory\"\n[receiver]\nlisten = [\"{scheme}://127.0.0.1:0\"]\n{tls}{more}\
                 [sources.orders]\n{KEYS}"
            ),
        );
        receiving(&self.inventory)
    }

    /// How `orders` speaks to `inventory`.
    fn send_to(&self, url: &str, more: &str) {
        self.orders.write(
            "postroom.toml",
            &format!(
                "[node]\nname = \"orders\"\n[receiver]\nlisten = []\n\
                 [services.inventory]\nurl = \"{url}\"\n{KEYS}{more}"
            ),
        );
    }

    fn send(&self) -> String {
        self.orders.ok(&["send", "stock.reserve", "{}", "--to", "inventory"])
    }
}

/// Waits until a message has failed for that reason.
fn fails(desk: &Desk, id: &str, reason: &str) {
    until(reason, || desk.json(&["show", id])[0]["last_error"].as_str().is_some_and(|error| error.contains(reason)));
}

#[test]
fn a_service_is_trusted_by_its_own_authority_and_not_by_the_systems() {
    let pair = Pair::new();
    let (_there, port) = pair.listen("https", "");
    let url = format!("https://localhost:{port}");
    // The system trusts the right one, and this service another.
    pair.send_to(&url, "tls_ca = \"other.pem\"\n");
    let system = pair.orders.path("authority.pem");
    let here = pair.orders.start_with(&["up"], &[("SSL_CERT_FILE", system.to_str().unwrap())]);
    fails(&pair.orders, &pair.send(), "invalid peer certificate");
    pair.send_to(&url, "tls_ca = \"authority.pem\"\n");
    here.hang_up();
    until("it has arrived", || pair.orders.outbox("done") == 1);
    // The same file with another authority in it.
    let authority = pair.authority.pem();
    pair.orders.write("authority.pem", &Authority::new().pem());
    here.hang_up();
    here.wait_for("SIGHUP: secrets, services and handlers are those of the configuration now");
    fails(&pair.orders, &pair.send(), "invalid peer certificate");
    pair.orders.write("authority.pem", &authority);
    here.hang_up();
    until("it has arrived", || pair.orders.outbox("done") == 2);
}

#[test]
fn without_an_authority_of_its_own_a_service_is_trusted_by_the_systems() {
    let pair = Pair::new();
    let (_there, port) = pair.listen("https", "");
    pair.send_to(&format!("https://localhost:{port}"), "");
    let system = pair.orders.path("authority.pem");
    let _here = pair.orders.start_with(&["up"], &[("SSL_CERT_FILE", system.to_str().unwrap())]);
    pair.send();
    until("it has arrived", || pair.orders.outbox("done") == 1);
}

#[test]
fn a_handler_is_trusted_by_its_own_authority() {
    let pair = Pair::new();
    let (_there, port) = pair.listen("https", "");
    let handler = |authority: &str| {
        // It answers 200 to everything.
        let url = format!("https://localhost:{port}/_rf/health");
        let handler = format!("[handlers.\"*\"]\nurl = \"{url}\"\ntls_ca = \"{authority}.pem\"\n");
        pair.orders.write("postroom.toml", &format!("[receiver]\nlisten = []\n{handler}"));
    };
    handler("other");
    let here = pair.orders.start(&["up"]);
    let id = pair.orders.ok(&["send", "order.placed", "{}"]);
    fails(&pair.orders, &id, "invalid peer certificate");
    handler("authority");
    here.hang_up();
    until("it is handled", || pair.orders.outbox("done") == 1);
}

/// What `config check` says of `orders`.
fn checked(desk: &Desk) -> String {
    let ran = desk.run(&["config", "check"]);
    ran.stderr + &ran.stdout
}

#[test]
fn an_authority_that_cannot_be_read_is_named_with_its_key_and_its_file() {
    let pair = Pair::new();
    for (file, why) in [("missing.pem", "No such file"), ("shop.key", "there is no certificate in the PEM")] {
        pair.send_to("https://localhost:1", &format!("tls_ca = \"{file}\"\n"));
        let said = checked(&pair.orders);
        let (key, file) = ("postroom.toml:8: `tls_ca` in [services.inventory]: ", format!("{file}: "));
        assert!(said.contains(key) && said.contains(&file) && said.contains(why), "{said}");
    }
    pair.send_to("http://localhost:1", "tls_ca = \"authority.pem\"\n");
    let said = checked(&pair.orders);
    assert!(said.contains("note: `tls_ca` in [services.inventory] is for https://"), "{said}");
}
