use super::*;
use crate::foreign::WebhookSecret;
use crate::receiver::ReceiverOptions;
use postroom_core::store::MemoryStore;
use postroom_core::work::handler::{Handlers, Memory};

#[test]
fn a_hook_that_is_not_valid_replaces_no_other() {
    let secret = || WebhookSecret::parse("an example secret, long enough to be one").unwrap();
    let hook = |topics: Vec<&str>| Hook::new("theirs", WebhookScheme::github([secret()]).unwrap()).topics(topics);
    let options = ReceiverOptions::default().hook(hook(vec!["push"]));
    let receiver = Receiver::<Memory>::with("shop", MemoryStore::new(), Handlers::new(), [], options).unwrap();
    for bad in [hook(vec![]), hook(vec!["a*b"]), hook(vec!["push"]).cloud_events()] {
        assert!(receiver.replace_hook(bad).is_err());
    }
    let admits = |topic| receiver.hook("/_rf/hooks/theirs").unwrap().topics.admits(topic);
    assert!(admits("push") && !admits("issues"), "the old one stays");
    assert!(receiver.replace_hook(hook(vec!["issues"])).unwrap());
    assert!(admits("issues") && !admits("push"));
    let other = Hook::new("other", WebhookScheme::github([secret()]).unwrap());
    assert!(!receiver.replace_hook(other).unwrap());
}
