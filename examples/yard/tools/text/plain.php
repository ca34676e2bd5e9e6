<?php
// HTML in, plain text out: block elements end lines, scripts and styles are dropped with what they hold.
$input = json_decode(file_get_contents('php://stdin'), true, 512, JSON_THROW_ON_ERROR);
$html = preg_replace('~<(script|style)\b[^>]*>.*?</\1\s*>~is', '', $input['html']);
$html = preg_replace('~<br\s*/?>|</(p|div|h[1-6]|li|tr|section|article)\s*>~i', "\n", $html);
$text = html_entity_decode(strip_tags($html), ENT_QUOTES | ENT_HTML5, 'UTF-8');
$text = trim(preg_replace('~[ \t]*\n\s*~', "\n", $text));
$characters = preg_match_all('~.~us', $text);
echo json_encode(['data' => ['text' => $text, 'characters' => $characters]], JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE);
