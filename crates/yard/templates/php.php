<?php
// The arguments arrive as JSON on stdin; the result is one JSON document on stdout.
$input = json_decode(file_get_contents('php://stdin'), true, 512, JSON_THROW_ON_ERROR);
echo json_encode(['data' => ['greeting' => "Hello, {$input['name']}!"]], JSON_THROW_ON_ERROR);
