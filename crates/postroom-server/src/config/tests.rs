use std::collections::BTreeSet;

use super::*;

fn read(text: &str, environment: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(Some("postroom.toml".into()), text, environment.collect())
}

/// The default file with every key uncommented.
fn uncommented() -> String {
    let is_key = |line: &str| {
        let name = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ") && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let lines = DEFAULT.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with('[') && rest.ends_with(']') || is_key(rest) => rest,
        _ => line,
    });
    // The digest in the example is invalid on purpose.
    lines.collect::<Vec<_>>().join("\n").replace("[\"…\"]", &format!("[\"{}\"]", "0".repeat(64)))
}

#[test]
fn the_default_file_says_what_is_so_without_it() {
    let written = read(DEFAULT, &[]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let without = read("", &[]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(written.receiver.listen, Some(vec![crate::up::RECEIVER.to_owned()]));
    assert_eq!(written.admin.listen, Some(crate::admin::USUAL));
    assert!(written.database().unwrap() == without.database().unwrap());
    let listen = None;
    let written = Config {
        store: Store { url: None, ..written.store },
        receiver: Receiver { listen, ..written.receiver },
        admin: Admin { listen: None, ..written.admin },
        ..written
    };
    assert!(written == without);
}

#[test]
fn the_default_file_has_every_key_and_no_other() {
    let text = uncommented();
    let root = tree::parse(&text).unwrap();
    let mut listed = BTreeSet::new();
    for (section, (_, node)) in &root {
        let tree::Value::Table(entries) = &node.value else { panic!("{section}") };
        for (key, (_, node)) in entries {
            let is_named = ["sources", "services", "handlers", "hooks", "topics", "tokens"].contains(&section.as_str());
            match &node.value {
                tree::Value::Table(keys) if is_named => {
                    listed.extend(keys.keys().map(|inner| format!("{section}.{key}.{inner}")));
                }
                _ => _ = listed.insert(format!("{section}.{key}")),
            }
        }
    }
    let variable = |name: &String| {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        format!("{PREFIX}{}", plain.to_uppercase())
    };
    let reader = Reader::new(BTreeMap::new());
    sections::read(&reader, root, None);
    assert_eq!(reader.known(), listed.iter().map(variable).collect());
    reader.finish("postroom.toml").unwrap_or_else(|mistakes| panic!("{mistakes}"));
}

#[test]
fn the_defaults_of_services_and_handlers_are_true_too() {
    let mut written = read(&uncommented(), &[]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    // These are examples; the real defaults are [retry] and the system's authorities.
    for service in &mut written.services {
        (service.retry, service.tls) = Default::default();
    }
    for handler in &mut written.handlers {
        (handler.retry, handler.tls) = Default::default();
    }
    let short = r#"
        [sources.orders]
        keys = { "2026-11" = { env = "ORDERS_KEY" } }
        [services.billing]
        url = "https://billing.example.com:7410"
        keys = { "2026-11" = { file = "/run/secrets/billing-key" } }
        [handlers."order.placed"]
        url = "http://127.0.0.1:8080/messages"
        secret = { file = "/run/secrets/handler" }
    "#;
    let short = read(short, &[]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(written.services == short.services && written.handlers == short.handlers);
    assert_eq!(written.sources[0].window, Some(short.receiver.window));
    assert_eq!(written.sources[0].allow_v1, short.sources[0].allow_v1);
}

#[test]
fn the_environment_goes_before_the_file() {
    let text = "[worker]\nbatch = 10\n[handlers.\"order.placed\"]\nurl = \"http://127.0.0.1:1/a\"\n";
    let environment = [
        ("POSTROOM_WORKER_BATCH", "8"),
        ("POSTROOM_WORKER_LEASE", "1m"),
        ("POSTROOM_RECEIVER_QUEUED", "false"),
        ("POSTROOM_RECEIVER_LISTEN", "http://127.0.0.1:1, unix:///run/a.sock"),
        ("POSTROOM_HANDLERS_ORDER_PLACED_URL", "http://127.0.0.1:2/b"),
        ("POSTROOM_HANDLERS_ORDER_PLACED_SECRET", "{ env = \"POSTROOM_HANDLERS_KEY\" }"),
        ("POSTROOM_HANDLERS_KEY", "of somebody else's"),
        ("POSTROOM_STORE_URL", "postgres://app:tiger@db/shop"),
        ("POSTROOM_ADMIN_SERVICE_HOST", "10.0.0.1"),
    ];
    let config = read(text, &environment).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!((config.worker.batch, config.worker.lease), (8, Duration::from_secs(60)));
    assert!(!config.receiver.queued);
    let listen = ["http://127.0.0.1:1", "unix:///run/a.sock"].map(str::to_owned);
    assert_eq!(config.receiver.listen.as_deref(), Some(&listen[..]));
    assert_eq!((config.handlers[0].url.as_str(), config.handlers[0].secrets.len()), ("http://127.0.0.1:2/b", 1));
    assert_eq!(config.database().unwrap().shown(), "postgres://app:***@db/shop");
}

#[test]
fn a_relative_path_begins_in_the_folder_of_the_file() {
    let config = Config::read(Some("/etc/shop/postroom.toml".into()), "[store]\nurl = \"shop.db\"", BTreeMap::new());
    let config = config.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(config.database().unwrap().shown(), "/etc/shop/shop.db");
}

#[test]
fn a_key_may_say_its_algorithm() {
    let with = |key: &str| read(&format!("[sources.orders]\nkeys = {{ \"a\" = {key} }}\n"), &[]);
    let of = |key: &str| with(key).unwrap_or_else(|mistakes| panic!("{mistakes}")).sources[0].keys[0].algorithm;
    assert_eq!(of("{ env = \"KEY\" }"), postroom::services::HmacAlgorithm::Sha256);
    assert_eq!(of("{ env = \"KEY\", algorithm = \"HMAC-SHA512\" }"), postroom::services::HmacAlgorithm::Sha512);
    let expected =
        "postroom.toml:2: `algorithm` of the key `a` in [sources.orders] must be \"HMAC-SHA256\" or \"HMAC-SHA512\"";
    for wrong in ["\"MD5\"", "\"hmac-sha512\"", "512"] {
        let told =
            with(&format!("{{ env = \"KEY\", algorithm = {wrong} }}")).err().map(|mistakes| mistakes.to_string());
        assert_eq!(told.as_deref(), Some(expected), "{wrong}");
    }
    let hook = "[hooks.github]\nscheme = \"github\"\nsecret = { env = \"KEY\", algorithm = \"HMAC-SHA512\" }\n";
    let told = read(hook, &[]).err().map(|mistakes| mistakes.to_string()).unwrap_or_default();
    assert!(told.contains("needs either"), "{told}");
}

#[test]
fn the_default_transport_completes_what_does_not_say() {
    let with = |url: &str, name: &str, node: &str| {
        let keys = "keys = { \"a\" = { env = \"KEY\" } }";
        read(&format!("[node]\n{node}\n[services.{name}]\n{keys}\n{url}\n"), &[])
    };
    let https = "default_transport = \"https\"";
    for (url, name, node, expected) in [
        ("url = \"billing:7410\"", "billing", https, "https://billing:7410"),
        ("url = \"unix:///run/b.sock\"", "billing", https, "unix:///run/b.sock"),
        ("", "billing", https, "https://billing"),
        ("", "billing", "default_transport = \"unix\"", "unix:///tmp/rf-billing.sock"),
        ("", "\"*\"", https, "https://{service}"),
        ("url = \"{service}.internal:7410\"", "\"*\"", https, "https://{service}.internal:7410"),
        ("url = \"https://{service}.internal:7410\"", "\"*\"", "", "https://{service}.internal:7410"),
    ] {
        let config = with(url, name, node).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(config.services[0].url, expected);
        assert!(config.reaches("billing") && config.reaches("stock") == name.contains('*'));
    }
    for (url, name, node, expected) in [
        ("url = \"billing:7410\"", "billing", "", "`url` in [services.billing] must be http://host:port"),
        ("", "billing", "", "[services.billing] needs a `url`"),
        ("", "billing", "default_transport = \"in-process\"", "must be \"http\", \"https\", \"grpc\""),
        ("", "billing", "default_transport = \"http\"", "messages would travel unencrypted"),
        ("url = \"https://billing:7410\"", "\"*\"", "", "{service} must be in the `url` of [services.\"*\"]"),
        ("url = \"https://{service}:7410\"", "billing", "", "{service} must be in the `url` of [services.\"*\"]"),
        ("url = 7", "billing", https, "`url` in [services.billing] must be text"),
    ] {
        let told = with(url, name, node).err().map(|mistakes| mistakes.to_string()).unwrap_or_default();
        assert!(told.contains(expected), "{url} {node}: {told}");
    }
}

#[test]
fn every_variable_with_a_secret_is_known() {
    let always = ["POSTROOM_DB", "POSTROOM_STORE_URL", "PGPASSWORD"];
    for (text, expected) in [
        ("", &[][..]),
        ("[store]\nurl = { env = \"DATABASE_URL\" }\n", &["DATABASE_URL"]),
        ("[store]\nurl = { file = \"url.key\" }\n", &[]),
        (
            "[sources.orders]\nkeys = { old = { env = \"OLD\" }, new = { env = \"NEW\" }, c = { file = \"c\" } }\n",
            &["NEW", "OLD"],
        ),
        ("[services.billing]\nurl = \"https://b:1\"\nkeys = { a = { env = \"BILLING\" } }\n", &["BILLING"]),
        ("[handlers.a]\nurl = \"http://127.0.0.1:1\"\nsecret = { env = \"HANDLER\" }\n", &["HANDLER"]),
        ("[hooks.a]\nscheme = \"stripe\"\nsecret = [{ env = \"ONE\" }, { env = \"TWO\" }]\n", &["ONE", "TWO"]),
    ] {
        let found = read(text, &[]).unwrap_or_else(|mistakes| panic!("{mistakes}")).secret_variables();
        let expected: BTreeSet<_> = expected.iter().chain(&always).map(|name| (*name).to_owned()).collect();
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_database_url_in_a_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("database.url");
    std::fs::write(&file, "postgres://postroom:pw@127.0.0.1/orders\n").unwrap();
    let config = read(&format!("[store]\nurl = {{ file = {file:?} }}\n"), &[]).unwrap();
    for (mode, allowed) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false), (0o602, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let told = config.database().err().map(|error| error.to_string());
        let expected = format!("others can read or change it (mode {mode:o}); set the mode to 600 or 640");
        assert_eq!(told.is_none(), allowed, "{mode:o}: {told:?}");
        assert!(told.is_none_or(|told| told.contains(&expected) && !told.contains("pw")), "{mode:o}");
    }
}
