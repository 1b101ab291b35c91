//! What the rules for credentials are held to: commands with one each, and commands without any.

use crate::secret_rules::{RULES, patterns};
use crate::secrets::{MARK, is_secret_name, is_secret_variable, without_credentials, without_values};

/// A password nobody would take for a word, and one that everybody would.
const ODD: &str = "Zq7hunter2Pw";
const PLAIN: &str = "correcthorse";
const TOKEN: &str = "abcdefghijklmnop1234567890ABCDEFGHIJ";
const HEX: &str = "0123456789abcdef0123456789abcdef";

/// Commands in which `@` stands for the credential.
const COMMANDS: &[(&str, &[&str])] = &[
    ("curl -u alice:@ https://example.com", &[ODD, PLAIN]),
    ("curl -su alice:@ https://example.com", &[ODD, PLAIN]),
    ("curl --user 'alice:@' https://example.com", &[ODD, PLAIN]),
    ("curl 'https://example.com/?a=1&b=2' -u alice:@", &[ODD, PLAIN]),
    ("http -a alice:@ example.com", &[ODD, PLAIN]),
    ("mysql -u root -p@ -e 'select 1'", &[ODD, PLAIN]),
    ("mysqldump -u root -p'@' db > dump.sql", &[ODD, PLAIN]),
    ("mysql -u root -p @ db", &[ODD, PLAIN]),
    ("sshpass -p @ ssh host uptime", &[ODD, PLAIN]),
    ("docker login -u alice -p @ registry.example.com", &[ODD, PLAIN]),
    ("mongosh -u root -p @ admin", &[ODD, PLAIN]),
    ("redis-cli -h host -a @ ping", &[ODD, PLAIN]),
    ("unzip -P @ a.zip", &[ODD, PLAIN]),
    ("7z x -p@ a.7z", &[ODD, PLAIN]),
    ("ldapsearch -D cn=admin -w @ -b dc=x", &[ODD, PLAIN]),
    ("openssl enc -aes-256-cbc -pass pass:@ -in a", &[ODD, PLAIN]),
    ("htpasswd -bc .htpasswd alice @", &[ODD, PLAIN]),
    ("ssh-keygen -t ed25519 -N @ -f key", &[ODD, PLAIN]),
    ("echo @ | sudo -S apt-get update", &[ODD, PLAIN]),
    ("echo -n '@' | docker login -u alice --password-stdin", &[ODD, PLAIN]),
    ("echo 'root:@' | chpasswd", &[ODD, PLAIN]),
    ("sqlplus scott/@@db", &[ODD, PLAIN]),
    ("psql -c \"ALTER USER alice WITH PASSWORD '@'\"", &[ODD, PLAIN]),
    ("mysql -e \"CREATE USER a IDENTIFIED BY '@'\"", &[ODD, PLAIN]),
    ("curl -d '{\"user\": \"alice\", \"password\": \"@\"}' https://example.com", &[ODD, PLAIN]),
    ("curl -d \"{\\\"password\\\": \\\"@\\\"}\" https://example.com", &[ODD, PLAIN]),
    ("curl -d '{\"apiKey\":\"@\",\"x\":1}' https://example.com", &[ODD, TOKEN]),
    ("curl -d 'user=alice&password=@&x=1' https://example.com", &[ODD, PLAIN]),
    ("curl 'https://example.com/?access_token=@&x=1'", &[ODD, TOKEN]),
    ("DB_PASS=@ ./migrate", &[ODD, PLAIN]),
    ("export DB_PASSWORD=\"@\"", &[ODD, PLAIN]),
    ("PGPASSWORD='@' psql -h host", &[ODD, PLAIN]),
    ("MYSQL_PWD=@ mysql", &[ODD, PLAIN]),
    ("export API_KEY=@; run", &[ODD, TOKEN]),
    ("STRIPE_KEY=@ run", &[ODD, TOKEN]),
    ("docker run -e SECRET_KEY_BASE=@ app", &[ODD, TOKEN]),
    ("MY_SECRET_TOKEN='@' run", &[ODD, TOKEN]),
    ("tool --password @", &[ODD, PLAIN]),
    ("tool --password=@", &[ODD, PLAIN]),
    ("tool --client-secret @ --verbose", &[ODD, PLAIN]),
    ("gpg --batch --passphrase '@' -c a", &[ODD, PLAIN]),
    ("aws configure set aws_secret_access_key @", &[TOKEN]),
    ("git config --global github.token @", &[ODD, TOKEN]),
    ("npm config set //registry.example/:_authToken @", &[ODD, TOKEN]),
    ("kubectl create secret generic s --from-literal=password=@", &[ODD, PLAIN]),
    ("curl -H 'Authorization: token @' https://example.com", &[ODD, TOKEN]),
    ("curl -H 'Authorization: Bearer @' https://example.com", &[ODD, TOKEN, PLAIN]),
    ("curl -H \"authorization: basic @\" https://example.com", &[TOKEN]),
    ("curl -H 'Authorization: @' https://example.com", &[TOKEN]),
    ("curl -H 'X-Api-Key: @' https://example.com", &[ODD, TOKEN]),
    ("curl -H 'PRIVATE-TOKEN: @' https://example.com", &[ODD, TOKEN]),
    ("curl -H 'Cookie: session=@; a=b' https://example.com", &[ODD, TOKEN]),
    ("git clone https://alice:@@example.com/r.git", &[ODD, PLAIN]),
    ("git clone https://@@example.com/r.git", &[TOKEN]),
    ("psql postgres://alice:@@db:5432/app", &[ODD, PLAIN]),
    ("mongosh 'mongodb+srv://alice:@@cluster/app'", &[ODD, PLAIN]),
    ("REDIS_URL=redis://:@@cache:6379 run", &[ODD, PLAIN]),
    ("sqlcmd -S 'Server=db;User Id=sa;Password=@;Encrypt=true'", &[ODD, PLAIN]),
    ("run 'AccountName=a;AccountKey=@==;Suffix=core'", &[TOKEN]),
    ("psql 'host=db user=alice password=@ dbname=app'", &[ODD, PLAIN]),
    ("echo ghp_@", &[TOKEN]),
    ("echo github_pat_@", &[TOKEN]),
    ("echo glpat-@", &[TOKEN]),
    ("echo xoxb-@", &[TOKEN]),
    ("echo sk-@", &[TOKEN]),
    ("echo sk_live_@", &[TOKEN]),
    ("echo hf_@", &[TOKEN]),
    ("echo npm_@", &[TOKEN]),
    ("echo AKIA@", &["ABCDEFGHIJKLMNOP"]),
    ("echo AIza@", &[TOKEN]),
    ("echo dop_v1_@", &[HEX]),
    ("echo eyJhbGciOiJI.@.c2lnbmF0dXJl", &[TOKEN]),
    ("curl https://hooks.slack.com/services/@", &["T0000/B0000/abcdefgh"]),
    ("cat <<E\n-----BEGIN RSA PRIVATE KEY-----\n@\n-----END RSA PRIVATE KEY-----\nE", &[TOKEN]),
    ("echo '-----BEGIN OPENSSH PRIVATE KEY-----\n@", &[TOKEN]),
    ("cat > c.yml <<E\npassword: @\ntoken: x\nE", &[ODD, PLAIN]),
    ("cat > c.yml <<E\napi_token: @\nE", &[ODD, TOKEN]),
    ("cat > .env <<E\nSECRET=@\nA=b\nE", &[ODD, PLAIN]),
];

/// Commands that have to be remembered as they are.
const HARMLESS: &[&str] = &[
    "ls -l /etc",
    "make token",
    "echo $PATH",
    "https://example.com/a@b",
    "mkdir -p /srv/app && cp -p a b",
    "docker run -p 8080:80 -u 1000:1000 -v /a:/b nginx",
    "ssh -p 2222 user@host uptime",
    "psql -h localhost -p 5432 -U alice app",
    "nmap -p 1-1000 127.0.0.1",
    "tar -xpf a.tar && zip -r a.zip dir",
    "python train.py --max-tokens 4096 --tokenizer bpe --num_tokens=100",
    "run --token-file /run/secrets/token --password-stdin",
    "curl -H \"Authorization: Bearer $TOKEN\" https://example.com",
    "curl -u \"$USER:$PASS\" https://example.com",
    "export DB_PASSWORD=$(cat /run/secret)",
    "DB_PASS=\"${DB_PASS}\" ./migrate",
    "tool --password \"$PASSWORD\"",
    "tool --api-key <your-key>",
    "git commit -m 'fix token: handle expiry'",
    "git checkout 0123456789abcdef0123456789abcdef01234567",
    "git log --author=alice --pretty=format:'%H %s'",
    "grep -rn 'def password' src && sed -i 's/a/b/' secret.py",
    "cargo test --package auth -- --nocapture tokens",
    "npm install --save-dev jsonwebtoken",
    "pip install passlib==1.7.4 && python -c 'import secrets'",
    "kubectl get secret app -o yaml",
    "passwd --help; man sudo",
    "sha256sum file | cut -d' ' -f1",
    "rsync -avu src/ dst/",
    "curl -s https://example.com/v1/items?page=2&key=a",
    "PASSES=3 BYPASS=1 COMPASS=north ./run",
    "CI=true NODE_ENV=production AUTHOR=alice make all",
    "export SSH_AUTH_SOCK=/tmp/agent.sock",
    "openssl rand -hex 16 && openssl genrsa -out key.pem 2048",
    "apt-get install -y build-essential pwgen",
    "basic authentication is explained in README.md",
    "aws s3 cp a s3://bucket/key --region eu-west-1",
];

#[test]
fn every_rule_compiles_and_names_what_it_takes_out() {
    assert_eq!(RULES.len(), patterns().len());
    assert!(RULES.iter().all(|rule| rule.pattern.capture_names().flatten().any(|name| name == "s")));
}

#[test]
fn no_credential_stays_in_any_of_the_commands() {
    let mut left = Vec::new();
    let mut forms = 0;
    for (command, secrets) in COMMANDS {
        for secret in *secrets {
            forms += 1;
            // A doubled sign is one that follows the credential.
            let text = command.replacen('@', secret, 1).replace("@@", "@");
            let clean = without_credentials(&text);
            if clean.contains(secret) || !clean.contains(MARK) {
                left.push(format!("{text}\n  -> {clean}"));
            }
        }
    }
    assert!(left.is_empty(), "{} of {forms}:\n{}", left.len(), left.join("\n"));
}

#[test]
fn harmless_commands_stay_readable() {
    let changed: Vec<String> = HARMLESS
        .iter()
        .map(|command| (command, without_credentials(command)))
        .filter(|(command, clean)| *command != clean)
        .map(|(command, clean)| format!("{command}\n  -> {clean}"))
        .collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn what_is_around_a_credential_stays() {
    for (text, clean) in [
        (
            "curl -u alice:x9 -X POST https://example.com",
            "curl -u alice:[redacted] -X POST https://example.com",
        ),
        ("DB_PASS=hunter2 ./migrate --all", "DB_PASS=[redacted] ./migrate --all"),
        ("curl -d '{\"password\": \"hush\", \"a\": 1}'", "curl -d '{\"password\": [redacted], \"a\": 1}'"),
        ("git clone https://u:p@ss@example.com/r", "git clone https://[redacted]@example.com/r"),
    ] {
        assert_eq!(without_credentials(text), clean);
    }
}

#[test]
fn names_of_secrets_are_told_from_names_about_them() {
    for name in [
        "DB_PASS",
        "password",
        "apiKey",
        "API_KEY",
        "client-secret",
        "PGPASSWORD",
        "_authToken",
        "requirepass",
        "SharedAccessKey",
        "STRIPE_KEY",
        "SECRET_KEY_BASE",
        "AWS_SESSION_TOKEN",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in
        ["max_tokens", "token_file", "PASSWORD_HINT", "compass", "key", "author", "monkey", "secret_id"]
    {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn values_of_variables_are_taken_out_wherever_they_stand() {
    assert!(is_secret_variable("DB_PASS", "plain"));
    assert!(is_secret_variable("WHATEVER", "a8f3k2m9x1"));
    for (name, value) in
        [("NODE_ENV", "production"), ("PREFIX", "/usr/local/lib64"), ("DEBUG", "1"), ("A_TOKEN", "1")]
    {
        assert!(!is_secret_variable(name, value), "{name}");
    }
    let clean = without_values("login plainword --as plainword", ["plainword"]);
    assert_eq!(clean, "login [redacted] --as [redacted]");
}
