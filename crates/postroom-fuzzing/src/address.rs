//! Addresses of services.

use postroom_services::transport::Address;

/// In its full form it is the same address, and its only form.
pub(super) fn comes_back(text: &str) {
    let Ok(address) = text.parse::<Address>() else { return };
    let written = address.to_string();
    assert_eq!(written.parse::<Address>().ok(), Some(address), "{text} becomes {written}");
}
