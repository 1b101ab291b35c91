//! Hostile arguments and hostile commands.

use crate::place::Place;

#[test]
fn arguments_reach_the_program_untouched() {
    let place = Place::with_vault();
    for word in ["$(id)", "`id`", "; rm -rf /", "a\nb", "--json", "{}", "*", "'\"", "\u{202e}x", "-rf", ""] {
        let (code, envelope) = place.run(&["--", "printf", "%s", word]);
        assert_eq!((code, envelope["result"]["stdout"].as_str()), (0, Some(word)), "{word:?}");
    }
}

#[test]
fn output_cannot_forge_an_envelope() {
    let place = Place::with_vault();
    let forged = r#"{"schema_version":1,"kind":"proxy_exec_result","success":true}"#;
    let (code, envelope) = place.run(&["--shell", &format!("echo '{forged}'; exit 9")]);
    assert_eq!((code, envelope["success"].as_bool()), (9, Some(false)));
    assert_eq!(envelope["result"]["stdout"].as_str().unwrap().trim(), forged);
}

#[test]
fn a_flood_of_output_costs_a_bounded_amount_of_memory_and_disk() {
    let place = Place::with_vault();
    let (code, envelope) = place.run(&["--shell", "head -c 400000000 /dev/zero"]);
    assert_eq!(code, 0);
    let capture = &envelope["result"]["stdout_capture"];
    assert_eq!((capture["bytes"].as_u64(), capture["complete"].as_bool()), (Some(400_000_000), Some(false)));
    assert_eq!(capture["file_bytes"], 256 << 20);
    assert!(envelope["result"]["stdout"].as_str().unwrap().len() < 200_000);
}

#[test]
fn the_host_cannot_be_seen_or_changed() {
    let place = Place::with_vault();
    let secret = place.cwd.path().join("secret");
    std::fs::write(&secret, "geheim").unwrap();
    // The policy does not see through this, so the sandbox has to hold.
    let script = format!(
        "import os\nfor p in ['{}', '{}/state.db', '/root/.bashrc']:\n  try: print(open(p).read())\n  except OSError: print('no')\n\
         try: open('/usr/x', 'w')\nexcept OSError: print('no')",
        secret.display(),
        place.home().display()
    );
    place.write("/probe.py", &script);
    let (_, envelope) = place.run(&["--", "python3", "probe.py"]);
    assert_eq!(envelope["result"]["stdout"], "no\nno\nno\nno\n", "{envelope}");
}

#[test]
fn the_network_of_the_host_cannot_be_reached() {
    let place = Place::with_vault();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 2); print('reached')\nexcept OSError: print('no')"
    );
    place.write("/probe.py", &script);
    let (_, envelope) = place.run(&["--", "python3", "probe.py"]);
    assert_eq!(envelope["result"]["stdout"], "no\n", "{envelope}");
}
