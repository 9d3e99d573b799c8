//! The unique key of a message in a request.

use postroom::message::Unique;
use serde::Deserialize;

use super::span;
use crate::admin::problem::Refusal;
use crate::admin::whole;

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AskedUnique {
    key: String,
    #[serde(default)]
    until: Option<Until>,
    #[serde(default, deserialize_with = "whole::maybe")]
    for_seconds: Option<u64>,
    #[serde(default)]
    if_taken: IfTaken,
}

/// What ends it.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Until {
    Started,
    Done,
}

/// What happens to a message whose key another one has.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum IfTaken {
    #[default]
    Keep,
    Replace,
    Refuse,
}

impl AskedUnique {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn unique(self) -> Result<Unique, Refusal> {
        let unique = match (self.until, self.for_seconds) {
            (None | Some(Until::Started), None) => Unique::while_waiting(self.key),
            (Some(Until::Done), None) => Unique::until_done(self.key),
            (None, Some(seconds)) => Unique::within(self.key, span(seconds)?),
            (Some(_), Some(_)) => {
                return Err(Refusal::bad("both unique.until and unique.forSeconds are given", "send only one"));
            }
        };
        Ok(match self.if_taken {
            IfTaken::Keep => unique,
            IfTaken::Replace => unique.or_replace(),
            IfTaken::Refuse => unique.or_refuse(),
        })
    }
}
