# Reads one line {"arguments": {"text": "…"}} and answers with one JSON line. Needs nothing but perl itself.
use strict;
use warnings;
use utf8;
binmode STDIN, ':encoding(UTF-8)';

my $string = qr/"((?:[^"\\]|\\.)*)"/;
my $value = qr/(?<value>\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+
    |\[(?:(?&value)(?:,(?&value))*|\s*)\]
    |\{(?:\s*"(?:[^"\\]|\\.)*"\s*:(?&value)(?:,\s*"(?:[^"\\]|\\.)*"\s*:(?&value))*|\s*)\})\s*)/x;

my ($arguments) = (<STDIN> // '') =~ /^\s*\{\s*"arguments"\s*:\s*\{(.*)\}\s*\}\s*$/s;
my $text;
while (($arguments // '') =~ /\G\s*$string\s*:($value),?/gc) {
    my ($name, $raw) = ($1, $2);
    $text = unescape($1) if $name eq 'text' && $raw =~ /^\s*$string\s*$/;
}
if (!defined $text) {
    print qq({"content":[{"type":"text","text":"the argument \\"text\\" is missing or is no string"}],"isError":true}\n);
    exit;
}
my $lines = () = $text =~ /\n|[^\n]\z/g;
my @words = grep { length } split /\s+/, $text;
printf qq({"lines":%d,"words":%d,"characters":%d}\n), $lines, scalar @words, length $text;

# The text that a JSON string stands for.
sub unescape {
    my ($text) = @_;
    my %short = (n => "\n", r => "\r", t => "\t", b => "\b", f => "\f");
    $text =~ s{\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.)}
              {defined $1 ? chr(0x10000 + ((hex($1) & 0x3ff) << 10) + (hex($2) & 0x3ff))
               : defined $3 ? chr hex $3 : $short{$4} // $4}ge;
    return $text;
}
