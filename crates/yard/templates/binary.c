/* Reads one JSON line ({"arguments": …}), writes one JSON line. Built by: cc -O2 -o @TOOL@ @TOOL@.c
   The schema has checked the arguments, so the first string after "name" is the name, still JSON-escaped. */
#include <stdio.h>
#include <string.h>

int main(void) {
    static char line[65536];
    if (!fgets(line, sizeof line, stdin)) return 1;
    char *at = strstr(line, "\"name\"");
    if (!at || !(at = strchr(at + 6, '"'))) return 1;
    char *end = ++at;
    while (*end && *end != '"') end += (*end == '\\' && end[1]) ? 2 : 1;
    printf("{\"greeting\": \"Hello, %.*s!\"}\n", (int)(end - at), at);
    return 0;
}
