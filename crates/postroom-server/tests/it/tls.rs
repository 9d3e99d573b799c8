//! Services and handlers with certificates from private authorities, and listeners that require them.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use postroom::services::Secret;

use crate::authority::Authority;
use crate::desk::{Desk, Running, until};
use crate::renew::receiving;
use crate::web::DIGEST;

const KEYS: &str = "keys = { a = { file = \"shop.key\" } }\n";

/// `inventory`, which listens with TLS, and `orders`, which sends to it. Only the private authority signs for them.
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

    /// Starts `inventory`, and returns its port.
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

    /// The configuration of `orders` for `inventory`.
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
    // The system trusts the right authority, and this service another.
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
    here.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
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

#[test]
fn who_has_no_certificate_by_the_authority_of_a_receiver_is_turned_away() {
    let (pair, other) = (Pair::new(), Authority::new());
    pair.inventory.write("ours.pem", &pair.authority.pem());
    pair.inventory.write("other.pem", &other.pem());
    let (there, port) = pair.listen("https", "client_ca = \"ours.pem\"\n");
    let url = format!("https://localhost:{port}");
    let trusting = "tls_ca = \"authority.pem\"\n";
    let with_certificate = format!("{trusting}tls_cert = \"client.pem\"\ntls_key = \"client.key\"\n");
    pair.send_to(&url, trusting);
    let here = pair.orders.start(&["up"]);
    let id = pair.send();
    fails(&pair.orders, &id, "CertificateRequired");
    other.issue(&pair.orders, "client");
    pair.send_to(&url, &with_certificate);
    here.hang_up();
    fails(&pair.orders, &id, "DecryptError");
    pair.authority.issue(&pair.orders, "client");
    here.hang_up();
    until("it has arrived", || pair.orders.outbox("done") == 1);

    // From now on another authority is required, with a new certificate from it.
    let listening = std::fs::read_to_string(pair.inventory.path("postroom.toml")).unwrap();
    pair.inventory.write("postroom.toml", &listening.replace("ours.pem", "other.pem"));
    there.hang_up();
    there.wait_for("SIGHUP: reloaded certificates; new connections use them");
    other.issue(&pair.orders, "client");
    here.hang_up();
    pair.send();
    until("it has arrived", || pair.orders.outbox("done") == 2);
    pair.authority.issue(&pair.orders, "client");
    here.hang_up();
    here.wait_for("SIGHUP: reloaded secrets, tokens, sources, services and handlers");
    fails(&pair.orders, &pair.send(), "DecryptError");
}

#[test]
fn a_certificate_does_not_stand_for_a_signature() {
    let pair = Pair::new();
    pair.inventory.write("ours.pem", &pair.authority.pem());
    let (_there, port) = pair.listen("https", "client_ca = \"ours.pem\"\n");
    pair.authority.issue(&pair.orders, "client");
    let tls = "tls_ca = \"authority.pem\"\ntls_cert = \"client.pem\"\ntls_key = \"client.key\"\n";
    pair.send_to(&format!("https://localhost:{port}"), tls);
    pair.orders.write("shop.key", &Secret::generate());
    let _here = pair.orders.start(&["up"]);
    fails(&pair.orders, &pair.send(), "the destination answered 401");
}

#[test]
fn certificates_are_shown_and_asked_for_over_grpc_too() {
    let pair = Pair::new();
    pair.inventory.write("ours.pem", &pair.authority.pem());
    let (_there, port) = pair.listen("grpcs", "client_ca = \"ours.pem\"\n");
    let url = format!("grpcs://localhost:{port}");
    pair.send_to(&url, "tls_ca = \"authority.pem\"\n");
    let here = pair.orders.start(&["up"]);
    let id = pair.send();
    until("it is turned away", || pair.orders.json(&["show", &id])[0]["last_error"].is_string());
    assert_eq!(pair.inventory.json(&["stats"])["inbox"]["total"], 0);
    pair.authority.issue(&pair.orders, "client");
    let tls = "tls_ca = \"authority.pem\"\ntls_cert = \"client.pem\"\ntls_key = \"client.key\"\n";
    pair.send_to(&url, tls);
    here.hang_up();
    until("it has arrived", || pair.orders.outbox("done") == 1);
}

/// The answer of the admin listener to that token and that client certificate.
fn ask(desk: &Desk, port: u16, client: Option<&str>, token: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")]).current_dir(desk.path(""));
    if let Some(name) = client {
        command.args(["-cert", &format!("{name}.pem"), "-key", &format!("{name}.key")]);
    }
    let mut asking = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let head = format!("host: 127.0.0.1:{port}\r\nconnection: close\r\nauthorization: Bearer {token}");
    // A refused client may find the connection closed.
    let _ = write!(asking.stdin.take().unwrap(), "GET /_rf/outbox/stats HTTP/1.1\r\n{head}\r\n\r\n");
    String::from_utf8(asking.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn the_admin_listener_asks_for_a_certificate_and_for_a_token() {
    let (desk, authority) = (Desk::new(), Authority::new());
    authority.issue(&desk, "server");
    authority.issue(&desk, "client");
    Authority::new().issue(&desk, "stranger");
    desk.write("authority.pem", &authority.pem());
    let tls = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\nclient_ca = \"authority.pem\"\n";
    let tokens = format!("[tokens.test]\ndigests = [\"{DIGEST}\"]\nmay = [\"read\"]\n");
    desk.write("postroom.toml", &format!("[admin]\nlisten = \"127.0.0.1:0\"\n{tls}{tokens}[receiver]\nlisten = []\n"));
    let up = desk.start(&["up"]);
    let said = up.wait_for("serves the HTTP API at https://127.0.0.1:");
    let port = said.rsplit(':').next().and_then(|port| port.trim().parse().ok()).unwrap();
    assert!(ask(&desk, port, Some("client"), "secret").starts_with("HTTP/1.1 200"));
    assert!(ask(&desk, port, Some("client"), "guessed").starts_with("HTTP/1.1 401"));
    assert_eq!(ask(&desk, port, None, "secret"), "");
    assert_eq!(ask(&desk, port, Some("stranger"), "secret"), "");
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_with_its_section_and_its_file() {
    let pair = Pair::new();
    pair.authority.issue(&pair.orders, "good");
    pair.authority.issue(&pair.orders, "another");
    pair.authority.issue_too_late(&pair.orders, "late");
    for (certificate, key, file, why) in [
        ("missing.pem", "good.key", "missing.pem: ", "No such file"),
        ("good.pem", "missing.key", "missing.key: ", "No such file"),
        ("good.key", "good.key", "good.key: ", "there is no certificate in the PEM"),
        ("good.pem", "authority.pem", "authority.pem: ", "there is no private key in the PEM"),
        ("good.pem", "another.key", "another.key: ", "the private key does not belong to the certificate"),
        ("late.pem", "late.key", "late.pem: ", "the certificate expired at 2"),
    ] {
        let tls = format!("tls_cert = \"{certificate}\"\ntls_key = \"{key}\"\n");
        let receiver = format!("[receiver]\nlisten = [\"https://127.0.0.1:0\"]\n{tls}");
        let handler = format!("[handlers.\"*\"]\nurl = \"https://localhost/\"\n{tls}");
        let sections =
            format!("{receiver}[admin]\n{tls}{handler}[services.billing]\nurl = \"https://localhost\"\n{KEYS}");
        pair.orders.write("postroom.toml", &format!("{sections}{tls}"));
        let said = checked(&pair.orders);
        for title in ["[receiver]", "[admin]", "[handlers.\"*\"]", "[services.billing]"] {
            let line = said.lines().find(|line| line.contains(title)).unwrap_or_else(|| panic!("{title}: {said}"));
            assert!(line.contains(&format!("`tls_cert` and `tls_key` in {title}: ")), "{line}");
            assert!(line.contains(file) && line.contains(why), "{line}");
        }
    }
    let tls = "tls_cert = \"good.pem\"\ntls_key = \"good.key\"\n";
    pair.orders.write("postroom.toml", &format!("[admin]\n{tls}client_ca = \"good.key\"\n"));
    let said = checked(&pair.orders);
    assert!(
        said.contains("postroom.toml:4: `client_ca` in [admin]: ") && said.contains("good.key: there is no"),
        "{said}"
    );
    pair.orders.write("postroom.toml", "[receiver]\nclient_ca = \"authority.pem\"\n");
    let said = checked(&pair.orders);
    assert!(said.contains("postroom.toml:2: `client_ca` in [receiver] needs `tls_cert` and `tls_key`"), "{said}");
}

#[test]
fn a_private_key_that_others_can_read_is_refused_wherever_it_is_named() {
    let (desk, authority) = (Desk::new(), Authority::new());
    authority.issue(&desk, "server");
    desk.write("shop.key", &Secret::generate());
    let tls = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\n";
    let receiver = format!("[receiver]\nlisten = [\"https://127.0.0.1:0\"]\n{tls}");
    let handler = format!("[handlers.\"*\"]\nurl = \"https://localhost/\"\n{tls}");
    let service = format!("[services.billing]\nurl = \"https://localhost\"\n{KEYS}{tls}");
    desk.write("postroom.toml", &format!("{receiver}[admin]\n{tls}{handler}{service}"));
    let set = |mode| std::fs::set_permissions(desk.path("server.key"), std::fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o600, 0o400, 0o640, 0o440] {
        set(mode);
        assert_eq!(desk.run(&["config", "check"]).code, Some(0), "{mode:o}");
    }
    for mode in [0o644, 0o660, 0o604] {
        set(mode);
        let said = checked(&desk);
        let why = format!("server.key: others may read or change it (mode {mode:o}); make it 600 or 640");
        assert_eq!(said.matches(&why).count(), 4, "{said}");
        assert_eq!(desk.run(&["up"]).code, Some(1), "{mode:o}");
    }
}

/// The output of `config check`.
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
    assert!(
        said.contains("note: `tls_ca` in [services.inventory] has no effect, because its `url` is neither https://"),
        "{said}"
    );
}
