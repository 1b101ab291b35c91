//! Tests of verdicts: a table of cases, and properties that hold for every policy and flow.

use std::net::{IpAddr, Ipv4Addr};

use agentiso_core::NetworkRules;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const PUBLIC: &str = "93.184.216.34";

fn policy(spec: NetworkRules) -> Policy {
    Policy::check(&spec).unwrap()
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

fn online() -> NetworkRules {
    NetworkRules { allow_internet: true, ..NetworkRules::default() }
}

fn listed(domains: &[&str], cidrs: &[&str]) -> NetworkRules {
    NetworkRules { allow_domains: Some(strings(domains)), allow_cidrs: Some(strings(cidrs)), ..online() }
}

#[derive(Debug)]
struct Case {
    address: IpAddr,
    port: u16,
    names: Vec<String>,
    is_host: bool,
}

fn to(address: &str, port: u16) -> Case {
    Case { address: address.parse().unwrap(), port, names: Vec::new(), is_host: false }
}

fn named(address: &str, port: u16, names: &[&str]) -> Case {
    Case { names: strings(names), ..to(address, port) }
}

fn decide(policy: &Policy, case: &Case) -> Verdict {
    policy.verdict(&Flow {
        destination: Destination { address: case.address, is_host: case.is_host, names: &case.names },
        port: case.port,
        protocol: Protocol::Tcp,
    })
}

fn rule(spec: &NetworkRules, case: Case) -> (bool, String) {
    let verdict = decide(&policy(spec.clone()), &case);
    (verdict.allowed, verdict.rule.to_string())
}

fn allowed(text: &str) -> (bool, String) {
    (true, text.to_owned())
}

fn refused(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

#[test]
fn nothing_is_reached_by_default() {
    assert_eq!(rule(&NetworkRules::default(), to(PUBLIC, 443)), refused("allow_internet: false"));
    let only_lists = NetworkRules { allow_internet: false, ..listed(&["a.example"], &["10.0.0.0/8"]) };
    assert_eq!(rule(&only_lists, to("10.0.0.1", 443)), refused("allow_internet: false"));
}

#[test]
fn the_internet_is_open_without_its_closed_parts() {
    assert_eq!(rule(&online(), to(PUBLIC, 443)), allowed("allow_internet: true"));
    for (address, why) in [
        ("10.1.2.3", "a private address"),
        ("192.168.0.1", "a private address"),
        ("172.16.5.5", "a private address"),
        ("100.64.0.1", "a carrier-grade NAT address"),
        ("169.254.0.1", "a link-local address"),
        ("169.254.169.254", "a cloud metadata address"),
        ("168.63.129.16", "a cloud metadata address"),
        ("127.0.0.1", "a loopback address"),
        ("::ffff:127.0.0.1", "a loopback address"),
        ("0.0.0.0", "an unspecified address"),
        ("224.0.0.1", "a multicast address"),
        ("255.255.255.255", "a reserved address"),
    ] {
        assert_eq!(
            rule(&online(), to(address, 80)),
            refused(&format!("closed by default: {why}")),
            "{address}"
        );
    }
    let host = Case { is_host: true, ..to("198.51.7.7", 22) };
    assert_eq!(rule(&online(), host), refused("closed by default: an address of the host"));
}

#[test]
fn ipv6_is_off_in_every_form() {
    let open = listed(&[], &["10.0.0.0/8"]);
    for address in ["2001:db8::1", "::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1"] {
        assert_eq!(rule(&open, to(address, 80)), refused("IPv6 is off"), "{address}");
    }
}

#[test]
fn a_closed_range_opens_only_to_a_range_within_it() {
    assert_eq!(
        rule(&listed(&[], &["0.0.0.0/0"]), to("10.0.0.1", 80)),
        refused("closed by default: a private address")
    );
    assert_eq!(
        rule(&listed(&[], &["8.0.0.0/5"]), to("10.0.0.1", 80)),
        refused("closed by default: a private address")
    );
    assert_eq!(rule(&listed(&[], &["10.0.0.0/8"]), to("10.0.0.1", 80)), allowed("allow_cidrs: 10.0.0.0/8"));
    assert_eq!(rule(&listed(&[], &["10.2.0.0/16"]), to("10.2.0.1", 80)), allowed("allow_cidrs: 10.2.0.0/16"));
    let link_local = listed(&[], &["169.254.0.0/16"]);
    assert_eq!(rule(&link_local, to("169.254.1.1", 80)), allowed("allow_cidrs: 169.254.0.0/16"));
    assert_eq!(
        rule(&link_local, to("169.254.169.254", 80)),
        refused("closed by default: a cloud metadata address"),
        "the metadata address must be named itself"
    );
    assert_eq!(
        rule(&listed(&[], &["169.254.169.254"]), to("169.254.169.254", 80)),
        allowed("allow_cidrs: 169.254.169.254/32")
    );
}

#[test]
fn the_host_opens_only_to_its_single_address() {
    let host = || Case { is_host: true, ..to("10.0.0.5", 22) };
    assert_eq!(
        rule(&listed(&[], &["10.0.0.0/8"]), host()),
        refused("closed by default: an address of the host")
    );
    assert_eq!(rule(&listed(&[], &["10.0.0.5/32"]), host()), allowed("allow_cidrs: 10.0.0.5/32"));
}

#[test]
fn lists_narrow_the_internet_to_what_they_name() {
    let lists = listed(&["*.example.com"], &["192.88.1.0/24"]);
    assert_eq!(rule(&lists, to("192.88.1.9", 80)), allowed("allow_cidrs: 192.88.1.0/24"));
    assert_eq!(
        rule(&lists, named(PUBLIC, 80, &["www.example.com"])),
        allowed("allow_domains: *.example.com")
    );
    let unlisted = refused("not in allow_domains or allow_cidrs");
    assert_eq!(rule(&lists, to(PUBLIC, 80)), unlisted, "an address literal");
    assert_eq!(rule(&lists, named(PUBLIC, 80, &["other.example"])), unlisted);
    assert_eq!(rule(&listed(&[], &[]), to(PUBLIC, 80)), unlisted, "empty lists name nothing");
}

#[test]
fn a_name_cannot_open_a_closed_address() {
    let lists = listed(&["*.example.com"], &[]);
    let rebound = named("10.0.0.1", 80, &["www.example.com"]);
    assert_eq!(rule(&lists, rebound), refused("closed by default: a private address"));
    let answer = |address: &str| {
        let destination = Destination { address: address.parse().unwrap(), is_host: false, names: &[] };
        policy(lists.clone()).answer_verdict(&destination).allowed
    };
    assert!(answer(PUBLIC));
    assert!(!answer("127.0.0.1"));
    assert!(!answer("192.168.1.1"));
}

#[test]
fn deny_is_stronger_than_allow() {
    let spec = NetworkRules {
        deny_domains: strings(&["bad.example.com"]),
        deny_cidrs: strings(&["93.184.216.0/24"]),
        ..listed(&["*.example.com"], &["93.184.0.0/16"])
    };
    assert_eq!(rule(&spec, to(PUBLIC, 80)), refused("deny_cidrs: 93.184.216.0/24"));
    assert_eq!(
        rule(&spec, named("93.184.1.1", 80, &["bad.example.com"])),
        refused("deny_domains: bad.example.com")
    );
    let shared = named("198.41.1.1", 80, &["bad.example.com", "good.example.com"]);
    assert_eq!(
        rule(&spec, shared),
        allowed("allow_domains: *.example.com"),
        "an address that two names share"
    );
}

#[test]
fn other_resolvers_are_closed_unless_they_are_named_themselves() {
    let closed = refused("closed by default: another resolver");
    for case in [to("8.8.8.8", 443), to("1.1.1.1", 443), to(PUBLIC, 53), to(PUBLIC, 853)] {
        assert_eq!(rule(&online(), case), closed);
    }
    assert_eq!(rule(&listed(&[], &["8.8.8.0/24"]), to("8.8.8.8", 443)), closed, "a range does not name it");
    assert_eq!(rule(&listed(&[], &["8.8.8.8"]), to("8.8.8.8", 853)), allowed("allow_cidrs: 8.8.8.8/32"));
    let by_name = named("8.8.8.8", 443, &["dns.google"]);
    assert_eq!(rule(&listed(&["dns.google"], &[]), by_name), allowed("allow_domains: dns.google"));

    let name = |spec: &NetworkRules, name: &str| policy(spec.clone()).name_verdict(name).rule.to_string();
    assert_eq!(name(&online(), "dns.google"), "closed by default: another resolver");
    assert_eq!(name(&listed(&["*.google"], &[]), "dns.google"), "closed by default: another resolver");
    assert_eq!(name(&listed(&["dns.google"], &[]), "dns.google"), "allow_domains: dns.google");
}

#[test]
fn only_allowed_names_resolve() {
    let name = |spec: &NetworkRules, name: &str| {
        let verdict = policy(spec.clone()).name_verdict(name);
        (verdict.allowed, verdict.rule.to_string())
    };
    assert_eq!(name(&NetworkRules::default(), "a.example"), refused("allow_internet: false"));
    assert_eq!(name(&online(), "a.example"), allowed("allow_internet: true"));
    let denying = NetworkRules { deny_domains: strings(&["*.bad.example"]), ..online() };
    assert_eq!(name(&denying, "tunnel.bad.example"), refused("deny_domains: *.bad.example"));
    let only_ranges = NetworkRules { allow_cidrs: Some(strings(&["10.0.0.0/8"])), ..online() };
    assert_eq!(name(&only_ranges, "a.example"), refused("not in allow_domains or allow_cidrs"));
}

#[test]
fn workspaces_reach_each_other_only_if_both_allow_it_and_share_a_group() {
    let social = NetworkRules { allow_inter_vm: true, ..NetworkRules::default() };
    let blue = NetworkRules { groups: strings(&["blue", "all"]), ..social.clone() };
    let red = NetworkRules { groups: strings(&["red", "all"]), ..social.clone() };
    let green = NetworkRules { groups: strings(&["green"]), ..social.clone() };
    let web = NetworkRules { allowed_ports: Some(vec![80]), ..social.clone() };
    let shut = NetworkRules { allowed_ports: Some(Vec::new()), ..social.clone() };
    let avoiding = NetworkRules { deny_cidrs: strings(&["10.99.0.0/16"]), ..social.clone() };
    let none = NetworkRules::default();
    let table: &[(&NetworkRules, &NetworkRules, u16, Protocol, &str)] = &[
        (&social, &social, 22, Protocol::Tcp, "allow_inter_vm: group default"),
        (&social, &none, 22, Protocol::Tcp, "allow_inter_vm: false"),
        (&none, &social, 22, Protocol::Tcp, "allow_inter_vm: false"),
        (&blue, &red, 22, Protocol::Udp, "allow_inter_vm: group all"),
        (&blue, &green, 22, Protocol::Tcp, "allow_inter_vm: no shared group"),
        (&social, &web, 80, Protocol::Tcp, "allow_inter_vm: group default"),
        (&social, &web, 22, Protocol::Tcp, "allowed_ports: not listed"),
        (&social, &web, 80, Protocol::Udp, "allowed_ports: not listed"),
        (&web, &social, 22, Protocol::Tcp, "allow_inter_vm: group default"),
        (&social, &shut, 80, Protocol::Tcp, "allowed_ports: not listed"),
        (&avoiding, &social, 80, Protocol::Tcp, "deny_cidrs: 10.99.0.0/16"),
    ];
    for (index, (from, to, port, protocol, expected)) in table.iter().enumerate() {
        let address = Ipv4Addr::new(10, 99, 0, 3);
        let verdict =
            policy((*from).clone()).neighbour_verdict(&policy((*to).clone()), address, *port, *protocol);
        assert_eq!(verdict.rule.to_string(), *expected, "row {index}");
        assert_eq!(verdict.allowed, matches!(verdict.rule, Rule::Group(_)), "row {index}");
    }
}

fn domain() -> impl Strategy<Value = String> {
    select(vec!["a.example", "*.example", "b.example", "x.a.example", "*.a.example", "other.test"])
        .prop_map(str::to_owned)
}

fn cidr() -> impl Strategy<Value = String> {
    select(vec![
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "93.184.0.0/16",
        "93.184.216.34",
        "8.8.8.8",
        "169.254.169.254",
    ])
    .prop_map(str::to_owned)
}

fn spec() -> impl Strategy<Value = NetworkRules> {
    let group = select(vec!["red", "blue"]).prop_map(str::to_owned);
    (
        any::<bool>(),
        any::<bool>(),
        vec(group, 1..3),
        option::of(vec(select(vec![22u16, 80, 443]), 0..3)),
        option::of(vec(domain(), 0..4)),
        vec(domain(), 0..3),
        option::of(vec(cidr(), 0..4)),
        vec(cidr(), 0..2),
    )
        .prop_map(|(net, vm, groups, ports, allow_domains, deny_domains, allow_cidrs, deny_cidrs)| {
            NetworkRules {
                allow_internet: net,
                allow_inter_vm: vm,
                groups,
                allowed_ports: ports,
                allow_domains,
                deny_domains,
                allow_cidrs,
                deny_cidrs,
                ..NetworkRules::default()
            }
        })
}

fn case() -> impl Strategy<Value = Case> {
    let address = select(vec![
        "93.184.216.34",
        "93.184.1.1",
        "8.8.8.8",
        "10.1.0.1",
        "10.2.0.1",
        "169.254.169.254",
        "127.0.0.1",
        "::ffff:10.1.0.1",
        "2001:db8::1",
        "224.0.0.1",
    ]);
    let name = select(vec!["a.example", "b.example", "x.a.example", "dns.google"]).prop_map(str::to_owned);
    (address, select(vec![22u16, 53, 80, 443, 853]), vec(name, 0..3), any::<bool>())
        .prop_map(|(address, port, names, is_host)| Case { is_host, names, ..to(address, port) })
}

/// One step that only takes something away.
fn tighten(mut spec: NetworkRules, step: u8, entry: (String, String)) -> NetworkRules {
    match step {
        0 => spec.allow_internet = false,
        1 => spec.allow_inter_vm = false,
        2 => spec.deny_domains.push(entry.0),
        3 => spec.deny_cidrs.push(entry.1),
        4 => spec.allow_domains = spec.allow_domains.map(|list| list.into_iter().skip(1).collect()),
        5 => spec.allow_cidrs = spec.allow_cidrs.map(|list| list.into_iter().skip(1).collect()),
        6 => spec.allowed_ports = Some(spec.allowed_ports.unwrap_or_default().into_iter().skip(1).collect()),
        _ => spec.allow_domains = spec.allow_domains.or(Some(Vec::new())),
    }
    spec
}

/// Decides as a packet filter does, in the order that `packet` describes.
fn filter(policy: &Policy, address: Ipv4Addr, case: &Case) -> bool {
    let rules = policy.packet_rules();
    let pinned = policy.pinned(&case.names);
    let within = |ranges: &[ipnet::Ipv4Net]| ranges.iter().any(|range| range.contains(&address));
    let (wide, single) = packet::closed();
    let is_single = rules.single.contains(&address);
    let is_resolver = packet::RESOLVER_PORTS.contains(&case.port) || within(&packet::resolver_ranges());
    let refused = within(&packet::never_reachable())
        || !rules.internet
        || within(&rules.denied)
        || ((case.is_host || single.contains(&address)) && !is_single)
        || (within(&wide) && !within(&rules.opened))
        || pinned.denied
        || (is_resolver && !is_single && !pinned.exact)
        || rules.listed.is_some_and(|listed| !within(&listed) && !pinned.listed);
    !refused
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_packet_filter_decides_like_the_verdict(spec in spec(), case in case()) {
        let policy = policy(spec);
        let IpAddr::V4(address) = case.address else { return Ok(()) };
        prop_assert_eq!(filter(&policy, address, &case), decide(&policy, &case).allowed);
    }

    #[test]
    fn tightening_never_opens_anything(
        before in spec(), step in 0u8..8, entry in (domain(), cidr()), case in case(), neighbour in spec()
    ) {
        let after = policy(tighten(before.clone(), step, entry));
        let (before, neighbour) = (policy(before), policy(neighbour));
        prop_assert!(!decide(&after, &case).allowed || decide(&before, &case).allowed);
        for name in &case.names {
            prop_assert!(!after.name_verdict(name).allowed || before.name_verdict(name).allowed);
        }
        let address = Ipv4Addr::new(10, 99, 0, 3);
        let reach = |from: &Policy, to: &Policy| from.neighbour_verdict(to, address, case.port, Protocol::Tcp).allowed;
        prop_assert!(!reach(&after, &neighbour) || reach(&before, &neighbour));
        prop_assert!(!reach(&neighbour, &after) || reach(&neighbour, &before));
    }

    #[test]
    fn a_change_that_does_not_widen_opens_nothing(
        before in spec(), other in spec(), step in 0u8..9, entry in (domain(), cidr()), case in case(), neighbour in spec()
    ) {
        // Random rules are hardly ever narrower; one step often is.
        let after = policy(if step < 8 { tighten(before.clone(), step, entry) } else { other });
        let (before, neighbour) = (policy(before), policy(neighbour));
        prop_assume!(!widens(&before, &after));
        prop_assert!(!decide(&after, &case).allowed || decide(&before, &case).allowed);
        for name in &case.names {
            prop_assert!(!after.name_verdict(name).allowed || before.name_verdict(name).allowed);
        }
        let address = Ipv4Addr::new(10, 99, 0, 3);
        let reach = |from: &Policy, to: &Policy| from.neighbour_verdict(to, address, case.port, Protocol::Tcp).allowed;
        prop_assert!(!reach(&after, &neighbour) || reach(&before, &neighbour));
        prop_assert!(!reach(&neighbour, &after) || reach(&neighbour, &before));
    }

    #[test]
    fn what_is_never_reachable_stays_closed_under_every_policy(spec in spec(), port in any::<u16>(), low in any::<u32>()) {
        let policy = policy(spec);
        for (base, prefix) in [(0x7f00_0000u32, 8), (0, 8), (0xe000_0000, 4), (0xf000_0000, 4)] {
            let address = IpAddr::V4(Ipv4Addr::from_bits(base | (low >> prefix)));
            for is_host in [false, true] {
                let case = Case { address, port, names: strings(&["a.example"]), is_host };
                prop_assert!(!decide(&policy, &case).allowed);
            }
        }
    }

    #[test]
    fn a_name_that_resolves_to_a_reachable_address_can_be_reached(spec in spec(), case in case()) {
        let policy = policy(spec);
        let Some(name) = case.names.first() else { return Ok(()) };
        let destination = Destination { address: case.address, is_host: case.is_host, names: &[] };
        let resolves = policy.name_verdict(name).allowed && policy.answer_verdict(&destination).allowed;
        let alone = Case { names: vec![name.clone()], ..case };
        let verdict = decide(&policy, &alone);
        prop_assert!(!resolves || verdict.allowed || verdict.rule == Rule::OtherResolver, "{:?}", verdict);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,80}") {
        if let Ok(pattern) = DomainPattern::parse(&text) {
            prop_assert_eq!(DomainPattern::parse(&pattern.to_string()), Ok(pattern));
        }
        if let Ok(range) = Cidr::parse(&text) {
            prop_assert_eq!(Cidr::parse(&range.to_string()), Ok(range));
        }
    }

    #[test]
    fn a_policy_survives_being_written_and_read(spec in spec()) {
        let policy = policy(spec);
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
    }
}
