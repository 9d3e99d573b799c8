use super::*;
use crate::dist;

const TREE: &str = "0postroom-server v0.1.0 (/src/crates/postroom-server)\tMIT OR Apache-2.0\n\
    1postroom v0.1.0 (/src/crates/postroom)\tMIT OR Apache-2.0\n\
    2serde v1.0.2\tMIT/Apache-2.0\n\
    3itoa v1.0.0+a\tApache-2.0 / MIT\n\
    1serde v1.0.2\tMIT/Apache-2.0 (*)\n";
const LOCK: &str = "[[package]]\nname = \"serde\"\nversion = \"1.0.2\"\nsource = \"registry+x\"\nchecksum = \"ab\"\n\
    dependencies = [\n \"itoa\",\n]\n\n[[package]]\nname = \"postroom\"\nversion = \"0.1.0\"\n";

#[test]
fn each_crate_is_there_once_with_what_it_needs() {
    let bom = bom(TREE, &checksums(LOCK)).unwrap();
    let binary = &bom["metadata"]["component"];
    assert_eq!((&binary["name"], &binary["type"]), (&"postroom".into(), &"application".into()));
    let names: Vec<_> = bom["components"].as_array().unwrap().iter().map(|component| &component["name"]).collect();
    assert_eq!(names, ["itoa", "postroom", "serde"]);
    let serde = &bom["components"][2];
    assert_eq!(serde["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
    assert_eq!(serde["hashes"], json!([{"alg": "SHA-256", "content": "ab"}]));
    assert_eq!(bom["components"][0]["licenses"], json!([{"expression": "Apache-2.0 OR MIT"}]));
    assert_eq!(bom["components"][0]["purl"], "pkg:cargo/itoa@1.0.0%2Ba");
    let needs = bom["dependencies"].as_array().unwrap();
    let server = needs.iter().find(|entry| entry["ref"] == "pkg:cargo/postroom-server@0.1.0").unwrap();
    assert_eq!(server["dependsOn"], json!(["pkg:cargo/postroom@0.1.0", "pkg:cargo/serde@1.0.2"]));
    let serde = needs.iter().find(|entry| entry["ref"] == "pkg:cargo/serde@1.0.2").unwrap();
    assert_eq!(serde["dependsOn"], json!(["pkg:cargo/itoa@1.0.0%2Ba"]));
}

#[test]
fn what_cannot_be_read_is_an_error() {
    assert!(bom("", &Checksums::new()).is_err());
    assert!(bom("serde\n", &Checksums::new()).is_err());
}

/// Checks the bill of the binary as built here: it follows the schema of CycloneDX, with a licence and a checksum
/// everywhere.
#[test]
fn the_bill_of_this_repository_is_whole() {
    let bom: Value = serde_json::from_str(&write(&dist::host().unwrap()).unwrap()).unwrap();
    assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let components = bom["components"].as_array().unwrap();
    let names: BTreeSet<_> = components.iter().filter_map(|component| component["name"].as_str()).collect();
    assert!(names.contains("postroom") && names.contains("libsqlite3-sys") && names.contains("tokio"), "{names:?}");
    assert!(!names.contains("syn") && !names.contains("postroom-testbed"), "{names:?}");
    let mut refs: BTreeSet<_> = components.iter().filter_map(|component| component["bom-ref"].as_str()).collect();
    assert_eq!(refs.len(), components.len(), "each is there once");
    for component in components {
        let name = component["name"].as_str().unwrap();
        assert_eq!(component["type"], "library");
        assert!(component["purl"].as_str().unwrap().starts_with(&format!("pkg:cargo/{name}@")), "{component}");
        assert!(component["version"].as_str().is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
        assert!(
            component["licenses"][0]["expression"].as_str().is_some_and(|licence| !licence.contains('/')),
            "{name}"
        );
        let checksum = component["hashes"][0]["content"].as_str().unwrap_or_default();
        let is_sha256 = checksum.len() == 64 && checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_sha256 || name.starts_with("postroom"), "{component}");
    }
    refs.extend(bom["metadata"]["component"]["bom-ref"].as_str());
    let needs = bom["dependencies"].as_array().unwrap();
    assert_eq!(needs.len(), refs.len());
    for entry in needs {
        let named = entry["dependsOn"].as_array().unwrap().iter().chain([&entry["ref"]]);
        assert!(named.into_iter().all(|name| refs.contains(name.as_str().unwrap())), "{entry}");
    }
}
