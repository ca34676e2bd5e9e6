<?php
// PHP's own streams use a proxy only if their context names one.
stream_context_set_default(['http' => ['proxy' => 'tcp://127.0.0.1:3128', 'request_fulluri' => true]]);
