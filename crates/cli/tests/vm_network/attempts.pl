# Tries to reach what the lines of standard input name, and prints for each: reached, refused or nothing.
# Lines: tcp HOST PORT, udp HOST PORT, ping HOST, frame HEX (sent as it is on the card).
use strict;
use warnings;
use Socket;

sub limited {
    my ($try) = @_;
    my $result = eval {
        local $SIG{ALRM} = sub { die "late\n" };
        alarm 20;
        my $answer = $try->();
        alarm 0;
        $answer;
    };
    alarm 0;
    return defined $result ? $result : "nothing";
}

sub tcp {
    my ($address, $port) = @_;
    socket(my $socket, PF_INET, SOCK_STREAM, 6) or die;
    return connect($socket, sockaddr_in($port, $address)) ? "reached" : "refused";
}

sub udp {
    my ($address, $port) = @_;
    socket(my $socket, PF_INET, SOCK_DGRAM, 17) or die;
    connect($socket, sockaddr_in($port, $address)) or return "refused";
    send($socket, "hello", 0) or return "refused";
    return defined recv($socket, my $answer, 100, 0) ? "reached" : "refused";
}

sub checksum {
    my $sum = 0;
    $sum += $_ for unpack "n*", $_[0];
    $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
    return ~$sum & 0xffff;
}

sub ping {
    my ($address) = @_;
    socket(my $socket, PF_INET, SOCK_RAW, 1) or die;
    my $echo = sub { pack "CCnnna8", 8, 0, $_[0], $$ & 0xffff, 1, "greeting" };
    send($socket, $echo->(checksum($echo->(0))), 0, sockaddr_in(0, $address)) or return "refused";
    while (defined(my $from = recv($socket, my $packet, 2000, 0))) {
        my $type = unpack "C", substr $packet, 20;
        return "refused" if $type == 3;
        return "reached" if $type == 0 && (sockaddr_in($from))[1] eq $address;
    }
    return "refused";
}

sub frame {
    my ($hex) = @_;
    open my $file, "<", "/sys/class/net/eth0/ifindex" or die;
    my $index = <$file> + 0;
    socket(my $socket, 17, SOCK_RAW, 0x0300) or die "raw socket: $!";
    return send($socket, pack("H*", $hex), 0, pack("SnlSCCa8", 17, 3, $index, 0, 0, 6, "")) ? "sent" : "not sent";
}

$| = 1;
while (my $line = <STDIN>) {
    my ($how, $host, $port) = split " ", $line;
    if ($how eq "frame") {
        print frame($host), "\n";
        next;
    }
    my $address = limited(sub { gethostbyname($host) || "" });
    if (length $address != 4) {
        print $address eq "nothing" ? "nothing\n" : "refused\n";
        next;
    }
    my %tries = (tcp => \&tcp, udp => \&udp, ping => \&ping);
    print limited(sub { $tries{$how}->($address, $port) }), "\n";
}
