# Listens on TCP ports 22 and 80, echoes datagrams on port 7, and notes every frame that the gateway did not send.
use strict;
use warnings;
use Socket;

for my $port (22, 80) {
    next if fork;
    socket(my $server, PF_INET, SOCK_STREAM, 6) or die;
    setsockopt($server, SOL_SOCKET, SO_REUSEADDR, 1);
    bind($server, sockaddr_in($port, INADDR_ANY)) or die;
    listen($server, 10) or die;
    while (accept(my $client, $server)) { close $client }
    exit;
}
if (!fork) {
    socket(my $server, PF_INET, SOCK_DGRAM, 17) or die;
    bind($server, sockaddr_in(7, INADDR_ANY)) or die;
    while (my $from = recv($server, my $data, 2000, 0)) { send($server, $data, 0, $from) }
    exit;
}
socket(my $card, 17, SOCK_RAW, 0x0300) or die;
open my $notes, ">", "/root/strange" or die;
$notes->autoflush(1);
open my $ready, ">", "/root/ready" or die;
close $ready;
open my $file, "<", "/sys/class/net/eth0/address" or die;
(my $own = <$file>) =~ s/[:\n]//g;
while (defined recv($card, my $frame, 70000, 0)) {
    my ($to, $from) = unpack "H12H12", $frame;
    next if $from eq $own || $from eq "026167770001" || $from eq "000000000000";
    print $notes unpack("H80", $frame), "\n";
}
