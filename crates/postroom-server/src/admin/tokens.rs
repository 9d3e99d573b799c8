//! Bearer tokens. The node keeps only their digests. Each token has a name, scopes and perhaps an expiry time.

use std::sync::{Arc, PoisonError, RwLock};

use postroom::clock::Timestamp;
use postroom::queue::Topics;
use sha2::{Digest, Sha256};

/// What a token may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Enqueue messages, and get their status.
    Enqueue,
    /// Fetch messages and settle them.
    Pull,
    /// See queues and messages.
    Read,
    /// See payloads, header values and answers.
    Payload,
    /// Change messages in the queues.
    Operate,
}

impl Scope {
    pub(crate) const ALL: [Self; 5] = [Self::Enqueue, Self::Pull, Self::Read, Self::Payload, Self::Operate];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Pull => "pull",
            Self::Read => "read",
            Self::Payload => "payload",
            Self::Operate => "operate",
        }
    }
}

/// The topics that a token may fetch.
#[derive(Clone, PartialEq, Debug)]
enum Fetches {
    Nothing,
    Only(Vec<String>),
    Everything,
}

/// The name of a token, and what it may do.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Rights {
    name: Arc<str>,
    scopes: Vec<Scope>,
    fetches: Fetches,
}

impl Rights {
    /// From words like `enqueue` and `pull:order.placed`. `payload` and `operate` include `read`.
    pub(crate) fn new(name: &str, words: &[&str]) -> Result<Self, String> {
        let (mut scopes, mut fetches) = (Vec::new(), Fetches::Nothing);
        for word in words {
            if let Some(topic) = word.strip_prefix("pull:") {
                Topics::only([topic]).map_err(|error| format!("{word:?}: {error}"))?;
                fetches = match fetches {
                    Fetches::Nothing => Fetches::Only(vec![topic.to_owned()]),
                    Fetches::Only(topics) => Fetches::Only([topics, vec![topic.to_owned()]].concat()),
                    Fetches::Everything => Fetches::Everything,
                };
                scopes.push(Scope::Pull);
                continue;
            }
            let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.as_str() == *word) else {
                return Err(format!("unknown scope {word:?}; {ALLOWED}"));
            };
            if scope == Scope::Pull {
                fetches = Fetches::Everything;
            }
            scopes.push(scope);
        }
        if scopes.is_empty() {
            return Err(format!("no scope is given; {ALLOWED}"));
        }
        if scopes.contains(&Scope::Payload) || scopes.contains(&Scope::Operate) {
            scopes.push(Scope::Read);
        }
        Ok(Self { name: name.into(), scopes, fetches })
    }

    fn everything(name: &str) -> Self {
        Self { name: name.into(), scopes: Scope::ALL.into(), fetches: Fetches::Everything }
    }

    /// The name of the token.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    pub(super) fn may_fetch(&self, topic: &str) -> bool {
        match &self.fetches {
            Fetches::Nothing => false,
            Fetches::Only(topics) => topics.iter().any(|allowed| allowed == topic),
            Fetches::Everything => true,
        }
    }

    /// The topics it may fetch; `None` means all.
    pub(super) fn fetches_only(&self) -> Option<&[String]> {
        match &self.fetches {
            Fetches::Only(topics) => Some(topics),
            Fetches::Nothing => Some(&[]),
            Fetches::Everything => None,
        }
    }
}

const ALLOWED: &str = "write enqueue, pull, pull:TOPIC, read, payload or operate";

/// A token, by its digests. There are two while it is being replaced.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) digests: Vec<[u8; 32]>,
    pub(crate) rights: Rights,
    /// The time from which it is refused.
    pub(crate) expires: Option<Timestamp>,
}

/// Reads a SHA-256 digest from its 64 hexadecimal digits.
pub(crate) fn digest(text: &str) -> Result<[u8; 32], String> {
    let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
    let bytes: Option<Vec<u8>> = bytes.collect();
    let bytes = bytes.filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let wrong = "a digest must be 64 hexadecimal digits; compute it with `printf %s \"$TOKEN\" | sha256sum`";
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| wrong.to_owned())
}

/// A new token, 256 random bits as text, and its digest.
pub(crate) fn generate() -> (String, [u8; 32]) {
    let text = postroom::services::Secret::generate();
    let digest = Sha256::digest(&text).into();
    (text, digest)
}

/// The result of looking up a token.
#[derive(PartialEq, Debug)]
pub(super) enum Known {
    Nobody,
    Expired(Timestamp),
    May(Rights),
}

/// The tokens of a node; they can be replaced while it runs.
#[derive(Clone)]
pub(crate) struct Tokens {
    now: Arc<RwLock<Vec<Token>>>,
    /// The token that the node created itself, valid while there are no others.
    made: Arc<[Token]>,
}

impl Tokens {
    pub(crate) fn new(tokens: Vec<Token>) -> Self {
        Self { now: Arc::new(RwLock::new(tokens)), made: Arc::new([]) }
    }

    /// Creates a token that may do everything until the node stops. Returns its text too.
    pub(crate) fn generate(name: &str) -> (Self, String) {
        let (text, digest) = generate();
        let made = vec![Token { digests: vec![digest], rights: Rights::everything(name), expires: None }];
        (Self { now: Arc::new(RwLock::new(made.clone())), made: made.into() }, text)
    }

    /// Replaces all tokens.
    pub(crate) fn replace(&self, tokens: Vec<Token>) {
        let tokens = if tokens.is_empty() { self.made.to_vec() } else { tokens };
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }

    /// Looks up a token, in constant time.
    pub(super) fn look_up(&self, token: &str, now: Timestamp) -> Known {
        let given: [u8; 32] = Sha256::digest(token).into();
        let same = |known: &[u8; 32]| known.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0;
        let tokens = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let matching = |token: &&Token| token.digests.iter().filter(|digest| same(digest)).count() > 0;
        let found = tokens.iter().filter(matching).reduce(|first, _| first);
        match found {
            None => Known::Nobody,
            Some(Token { expires: Some(end), .. }) if *end <= now => Known::Expired(*end),
            Some(token) => Known::May(token.rights.clone()),
        }
    }
}

#[cfg(test)]
impl Tokens {
    /// A node with one token for each of these, and their texts.
    pub(super) fn with<const N: usize>(all: [(&str, &[&str]); N]) -> (Self, [String; N]) {
        let made = all.map(|(name, may)| {
            let (text, digest) = generate();
            (Token { digests: vec![digest], rights: Rights::new(name, may).unwrap(), expires: None }, text)
        });
        (Self::new(made.iter().map(|(token, _)| token.clone()).collect()), made.map(|(_, text)| text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_771_070_400_000_000);
    // `printf %s secret | sha256sum`
    const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    fn token(may: &[&str], expires: Option<Timestamp>) -> Token {
        Token { digests: vec![digest(SECRET).unwrap()], rights: Rights::new("orders", may).unwrap(), expires }
    }

    #[test]
    fn a_token_is_known_by_its_digest_alone() {
        let (tokens, generated) = Tokens::generate("node");
        assert_eq!(tokens.look_up(&generated, NOW), Known::May(Rights::everything("node")));
        assert_eq!(tokens.look_up("secret", NOW), Known::Nobody);
        tokens.replace(vec![token(&["enqueue"], None)]);
        assert_eq!(tokens.look_up(&generated, NOW), Known::Nobody, "it is not among the new ones");
        assert_eq!(tokens.look_up("secret", NOW), Known::May(Rights::new("orders", &["enqueue"]).unwrap()));
        tokens.replace(Vec::new());
        assert!(matches!(tokens.look_up(&generated, NOW), Known::May(_)), "there are no others any more");
        assert_eq!(tokens.look_up("secret", NOW), Known::Nobody);
        for unknown in ["", "Secret", SECRET] {
            assert_eq!(tokens.look_up(unknown, NOW), Known::Nobody, "{unknown}");
        }
    }

    #[test]
    fn a_token_runs_out_at_its_time() {
        let end = NOW.plus(std::time::Duration::from_secs(1));
        let tokens = Tokens::new(vec![token(&["read"], Some(end))]);
        assert!(matches!(tokens.look_up("secret", NOW), Known::May(_)));
        assert_eq!(tokens.look_up("secret", end), Known::Expired(end));
    }

    #[test]
    fn both_digests_are_good_while_a_token_is_changed() {
        let (new, digest) = generate();
        let mut both = token(&["read"], None);
        both.digests.push(digest);
        let tokens = Tokens::new(vec![both]);
        assert_eq!(tokens.look_up("secret", NOW), tokens.look_up(&new, NOW));
    }

    #[test]
    fn a_token_may_do_what_it_says_and_nothing_else() {
        let rights = |may: &[&str]| Rights::new("a", may).unwrap();
        for (may, allowed) in [
            (&["enqueue"][..], &[Scope::Enqueue][..]),
            (&["pull"], &[Scope::Pull]),
            (&["pull:a", "pull:b"], &[Scope::Pull]),
            (&["read"], &[Scope::Read]),
            (&["payload"], &[Scope::Read, Scope::Payload]),
            (&["operate"], &[Scope::Read, Scope::Operate]),
            (&["enqueue", "read"], &[Scope::Enqueue, Scope::Read]),
        ] {
            for scope in Scope::ALL {
                assert_eq!(rights(may).may(scope), allowed.contains(&scope), "{may:?} {scope:?}");
            }
        }
        let some = rights(&["pull:a", "pull:b"]);
        assert!(some.may_fetch("b") && !some.may_fetch("c") && rights(&["pull"]).may_fetch("c"));
        assert!(!rights(&["read"]).may_fetch("a"));
    }

    #[test]
    fn what_a_token_may_do_is_checked() {
        for bad in [&[][..], &["write"], &["pull:"], &["pull:a\nb"], &["Enqueue"]] {
            let why = Rights::new("a", bad).unwrap_err();
            assert!(why.contains("write enqueue") || why.contains("pull:"), "{why}");
        }
    }

    #[test]
    fn a_digest_is_64_digits() {
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32), &"+a".repeat(32)] {
            assert!(digest(bad).is_err(), "{bad}");
        }
    }
}
