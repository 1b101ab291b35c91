use crate::common::*;
use std::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn by_hand() {
    let home = Home::new().await;
    let t = Instant::now();
    let view = home.create("one").await;
    println!("create {:?} {}", t.elapsed(), view.tier);
    let t = Instant::now();
    println!("{}", home.sh("one", "hostname; cat /proc/sys/kernel/random/boot_id").await);
    println!("exec {:?}", t.elapsed());
    for _ in 0..3 {
        let t = Instant::now();
        home.sh("one", "true").await;
        println!("exec {:?}", t.elapsed());
    }
    home.sh("one", "(i=0; while :; do i=$((i+1)); echo $i > /dev/shm/count; done) >/dev/null 2>&1 &").await;
    for n in 0..4 {
        let t = Instant::now();
        let s = home.snapshot("one", &format!("m{n}"), true).await;
        println!("snapshot memory {:?} pause {:?} {:?}", t.elapsed(), s.pause, s.memory);
    }
    for n in 0..3 {
        let t = Instant::now();
        let s = home.snapshot("one", &format!("d{n}"), false).await;
        println!("snapshot disk {:?} pause {:?}", t.elapsed(), s.pause);
    }
    let before = home.sh("one", "cat /dev/shm/count").await;
    println!("count {before}");
    for n in 0..3 {
        let t = Instant::now();
        let r =
            home.workspaces.restore("one", "m0", false, &silent()).await.unwrap_or_else(|f| panic!("{f:?}"));
        println!("restore {:?} away {:?}", t.elapsed(), r.away);
        println!("count {n} {}", home.sh("one", "cat /dev/shm/count").await);
    }
    for n in 0..4 {
        let t = Instant::now();
        let f = home.fork("one", &format!("f{n}"), 1).await;
        println!("fork {:?} pause {:?}", t.elapsed(), f.pause);
    }
    println!("{}", home.sh("f0", "hostname; cat /dev/shm/count; cat /proc/sys/kernel/random/boot_id").await);
    println!("{}", home.sh("one", "hostname; cat /dev/shm/count").await);
    for s in home.workspaces.snapshots("one").unwrap() {
        println!(
            "{} parent {:?} memory {} used {} referenced {} current {}",
            s.name, s.parent, s.memory, s.used_bytes, s.referenced_bytes, s.current
        );
    }
    let t = Instant::now();
    let f = home.fork("one", "many", 10).await;
    println!(
        "10 forks {:?} pause {:?} {}",
        t.elapsed(),
        f.pause,
        f.forks.iter().filter(|f| f.result.is_ok()).count()
    );
    for w in home.workspaces.list().unwrap() {
        home.remove(w.name.as_str()).await;
    }
    println!(
        "{:?} {:?} {:?} {:?}",
        home.files("disks"),
        home.files("memory"),
        home.files("workspaces"),
        home.files("bases")
    );
    println!("{:?}", home.home.processes());
}
