//! Users of clients: which of them may connect, and which have the privilege to raise priorities.
//!
//! Invariant: a number that the system reports for several users grants nothing.

use super::config::ServerConfig;
use crate::transport::Link;
use std::sync::OnceLock;
use tidegate_platform::once;

/// Returns the user of this service, if its number names one user.
pub(super) fn own_user() -> Option<u32> {
    let own = rustix::process::geteuid().as_raw();
    (Some(own) != number_of_several_users()).then_some(own)
}

/// Returns the number that the system reports for each user that the user namespace does not map;
/// `None` in a namespace that maps every user.
fn number_of_several_users() -> Option<u32> {
    /// The number where `/proc` is not mounted: the system's default.
    const UNMAPPED: u32 = 65_534;
    /// It does not change, and each connection needs it.
    static NUMBER: OnceLock<Option<u32>> = OnceLock::new();
    *once::make_alone(&NUMBER, || {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let unmapped = read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(UNMAPPED);
        (!maps_every_user(&read("/proc/self/uid_map"))).then_some(unmapped)
    })
}

/// Returns whether the client at the other end has the privilege to raise priorities.
pub(super) fn may_raise_priority(link: &Link, config: &ServerConfig) -> bool {
    // Most services grant it to no client.
    !config.may_raise_priority.is_empty()
        && link.peer().is_ok_and(|peer| is_privileged(peer.uid, number_of_several_users(), config))
}

/// Returns whether clients of user `uid` have the privilege. `several`: a number that is reported
/// for several users, of which none has it.
fn is_privileged(uid: u32, several: Option<u32>, config: &ServerConfig) -> bool {
    Some(uid) != several && config.may_raise_priority.contains(&uid)
}

/// Returns whether a user namespace with these mappings is the first one, which has every user.
fn maps_every_user(mappings: &str) -> bool {
    mappings.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns whether user `uid` may connect to a service of user `own`.
pub(super) fn may_connect(uid: u32, own: Option<u32>, config: &ServerConfig) -> bool {
    config.any_user || Some(uid) == own || uid == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_takes_its_own_user_and_root_and_others_only_if_told_so() {
        let (own, other) = (1000, 1001);
        for (any_user, others) in [(false, false), (true, true)] {
            let config = ServerConfig { any_user, ..ServerConfig::default() };
            let may = |uid| may_connect(uid, Some(own), &config);
            assert_eq!((may(own), may(0), may(other)), (true, true, others));
        }
        assert!(!may_connect(other, Some(0), &ServerConfig::default()), "a service of root");
    }

    #[test]
    fn only_users_that_are_named_have_the_privilege_to_raise_priorities() {
        let config = |users: &[u32]| ServerConfig {
            may_raise_priority: users.to_vec(),
            ..ServerConfig::default()
        };
        assert!(!is_privileged(0, None, &ServerConfig::default()), "not even root by default");
        let named = config(&[1000, 65_534]);
        assert!(is_privileged(1000, None, &named) && !is_privileged(1001, None, &named));
        assert!(!is_privileged(0, None, &named));
        // One number for every user that the namespace does not map.
        assert!(!is_privileged(65_534, Some(65_534), &named));
        assert!(is_privileged(65_534, None, &named));
    }

    #[test]
    fn a_service_whose_user_is_not_told_apart_takes_root_only() {
        let (unmapped, config) = (65_534, ServerConfig::default());
        assert!(!may_connect(unmapped, None, &config) && may_connect(0, None, &config));
        assert!(maps_every_user("         0          0 4294967295\n"));
        for part in ["0 1000 1\n", "0 0 1\n1 100000 65536\n", ""] {
            assert!(!maps_every_user(part), "{part}");
        }
    }
}
