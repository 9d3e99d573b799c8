//! Bearer tokens: only their digests are kept.

use sha2::{Digest, Sha256};

/// What a token may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Scope {
    /// Ask.
    Read,
    /// Ask and change.
    Write,
}

/// What whoever asks may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    pub(super) scope: Scope,
    /// May also see what messages hold: payloads, the values of headers, answers.
    pub(super) payloads: bool,
}

impl Rights {
    pub(super) fn may_write(self) -> bool {
        self.scope == Scope::Write
    }

    fn with(self, other: Self) -> Self {
        Self { scope: self.scope.max(other.scope), payloads: self.payloads || other.payloads }
    }
}

#[derive(Clone, PartialEq)]
struct Token {
    digest: [u8; 32],
    rights: Rights,
}

/// The tokens of a node.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    /// A new token for as long as the node runs, and its text: 256 random bits.
    pub(crate) fn generate(&mut self, scope: Scope, payloads: bool) -> String {
        let text = postroom::Secret::generate();
        self.0.push(Token { digest: Sha256::digest(&text).into(), rights: Rights { scope, payloads } });
        text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A token by its SHA-256 digest, in hexadecimal digits. One that is added twice has the rights of both.
    pub(crate) fn add(&mut self, digest: &str, scope: Scope, payloads: bool) -> Result<(), String> {
        let bytes = (0..digest.len()).step_by(2).map(|at| u8::from_str_radix(digest.get(at..at + 2)?, 16).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
        let digest = bytes.and_then(|bytes| bytes.try_into().ok());
        let digest = digest.ok_or("a token's digest is 64 hexadecimal digits: `printf %s TOKEN | sha256sum`")?;
        self.0.push(Token { digest, rights: Rights { scope, payloads } });
        Ok(())
    }

    /// What a token may do; none when nobody knows it. Every digest is compared, and each as a whole.
    pub(super) fn rights_of(&self, token: &str) -> Option<Rights> {
        let given: [u8; 32] = Sha256::digest(token).into();
        let same = |known: &[u8; 32]| known.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0;
        self.0.iter().filter(|known| same(&known.digest)).map(|known| known.rights).reduce(Rights::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_digest_alone() {
        let mut tokens = Tokens::default();
        let write = tokens.generate(Scope::Write, false);
        // `printf %s secret | sha256sum`
        let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        tokens.add(digest, Scope::Read, false).unwrap();
        let rights = |scope, payloads| Some(Rights { scope, payloads });
        assert_eq!(tokens.rights_of(&write), rights(Scope::Write, false));
        assert_eq!(tokens.rights_of("secret"), rights(Scope::Read, false));
        tokens.add(digest, Scope::Read, true).unwrap();
        assert_eq!(tokens.rights_of("secret"), rights(Scope::Read, true));
        tokens.add(digest, Scope::Write, false).unwrap();
        assert_eq!(tokens.rights_of("secret"), rights(Scope::Write, true), "the rights of all");
        for unknown in ["", "Secret", digest] {
            assert_eq!(tokens.rights_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_digest_is_64_digits() {
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32)] {
            assert!(Tokens::default().add(bad, Scope::Read, false).is_err(), "{bad}");
        }
    }
}
