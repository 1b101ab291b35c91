//! Refused connections that wait for an answer.

use agentiso_core::{Ask, NetworkRules};
use agentiso_net::{Limits, LogEvent};
use agentiso_policy::egress::Policy;
use smoltcp::socket::tcp::State;

use crate::support::*;

/// Nothing is allowed, and what is refused waits.
fn asking() -> NetworkRules {
    NetworkRules { allow_domains: Some(Vec::new()), ask: Ask::Wait, ..online() }
}

fn set(net: &Net, rules: &NetworkRules) {
    net.router.set_policies(vec![(workspace(2), Policy::check(rules).unwrap())]).unwrap();
}

#[tokio::test]
async fn a_connection_that_waits_opens_when_it_is_granted() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, asking());
    let connection = guest.dial(PUBLIC, 80, 1000);
    tokio::select! {
        entry = net.logged(LogEvent::Refused) => assert_eq!(entry.address, Some(PUBLIC)),
        () = guest.until("nothing", |guest| (!guest.tcp(connection).is_active()).then_some(())) => {
            panic!("it did not wait")
        }
    }
    // A change that does not allow it is not an answer.
    set(&net, &NetworkRules { deny_domains: strings(&["bad.example"]), ..asking() });
    assert_eq!(guest.tcp(connection).state(), State::SynSent);
    set(&net, &NetworkRules { allow_cidrs: Some(strings(&["93.184.216.34"])), ..asking() });
    guest.until("it is open", |guest| guest.tcp(connection).may_send().then_some(())).await;
    listener.accept().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_waits_is_refused_when_nobody_answers() {
    let net = Net::new();
    let _listener = net.uplink.listen(PUBLIC, 80).await;
    let limits = Limits { ask_seconds: 1, ..Limits::default() };
    let mut guest = net.guest_with(2, asking(), limits, 1500);
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
    assert_eq!(net.router.machines()[0].counters.flows_open, 0);
}

#[tokio::test]
async fn a_connection_that_waits_is_refused_as_soon_as_the_rules_say_so() {
    let net = Net::new();
    let mut guest = net.guest(2, asking());
    let connection = guest.dial(PUBLIC, 80, 1000);
    tokio::select! {
        _ = net.logged(LogEvent::Refused) => {}
        () = guest.until("nothing", |_| None::<()>) => {}
    }
    set(&net, &NetworkRules { ask: Ask::Refuse, ..asking() });
    guest.until("it is refused", |guest| (!guest.tcp(connection).is_open()).then_some(())).await;
}
