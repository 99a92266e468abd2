//! Where a redirection leads.
//!
//! Redirections are followed by hand, so that every address on the way is looked at before
//! anything is asked of it.

use ureq::http::Uri;

/// The address that a `Location` names, seen from `base`.
///
/// `None` if it is no address. A fragment is for browsers and is dropped.
pub(crate) fn resolve(base: &str, location: &str) -> Option<String> {
    let base: Uri = base.parse().ok()?;
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let location = location.split('#').next().unwrap_or_default().trim();
    let address = if location.is_empty() {
        return None;
    } else if has_scheme(location) {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let (folder, _) = base.path().rsplit_once('/').unwrap_or_default();
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let parsed: Uri = address.parse().ok()?;
    (parsed.scheme().is_some() && parsed.host().is_some_and(|host| !host.is_empty()))
        .then_some(address)
}

/// `name:` at the start, before any slash or question mark.
fn has_scheme(location: &str) -> bool {
    location.split(['/', '?']).next().is_some_and(|start| start.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_as_browsers_read_them() {
        let base = "https://a.org:8443/data/set/old.tar?x=/y";
        let cases = [
            ("https://b.org/new.tar", "https://b.org/new.tar"),
            ("HTTPS://b.org/new.tar?sig=a:b", "HTTPS://b.org/new.tar?sig=a:b"),
            ("http://b.org/", "http://b.org/"),
            ("//b.org/new.tar", "https://b.org/new.tar"),
            ("/new.tar#part", "https://a.org:8443/new.tar"),
            ("new.tar?at=12:00", "https://a.org:8443/data/set/new.tar?at=12:00"),
        ];
        for (location, expected) in cases {
            assert_eq!(resolve(base, location).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_no_address_leads_nowhere() {
        for location in ["", "  ", "#top", "file:///etc/passwd", "data:,x", "https://", "ftp:x"] {
            assert_eq!(resolve("https://a.org/x", location), None, "{location}");
        }
        assert_eq!(resolve("not an address", "/x"), None);
    }
}
